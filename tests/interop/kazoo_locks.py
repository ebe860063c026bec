"""kazoo's locks against the server HOST:PORT of the first argument, beside those of others.

    count PATH FILE TURNS           takes the Lock TURNS times, and adds one to the number in FILE
    countrw PATH FILE TURNS SEED    the same with the WriteLock, and reads with the ReadLock in
                                    between; fails if somebody writes meanwhile
    countas PATH FILE TURNS         the same as count with a Lock that uses Curator's names
    enters PATH [PATTERN]..         takes the Lock, which also waits for names with these patterns;
                                    fails if it has to wait
    waits PATH [PATTERN]..          fails if it does not
    elects PATH ID OTHER..          fails unless the Election's candidates are the others in this
                                    order, and then this one, which leads when they have gone
    adds PATH N TIMES [BEFORE]      adds N to the Counter so many times; fails unless it was at
                                    BEFORE
    attends PATH ID OTHER..         joins the Party; fails unless its members are the others;
                                    leaves when all of them have gone
    takes PATH MAX TURNS SEED       takes a permit of the Semaphore so often, and keeps it a while
    finds PATH MAX HOLDER..         fails unless a Semaphore of so many permits is held by these,
                                    who leave no other permit if they are as many
    disagrees PATH MAX              fails unless the Semaphore has another number of permits
    closes PATH, opens PATH         create the Barrier, and remove it
    stopped PATH, passes PATH       fail unless the Barrier is closed, or open
"""

import random
import sys
import time

import kazoo.recipe.lock
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

DEADLINE = 20


def number(file):
    with open(file) as lines:
        return int(lines.read())


def add_one(file):
    value = number(file) + 1
    with open(file, "w") as lines:
        lines.write(str(value))


def count(zk, path, file, turns):
    lock = zk.Lock(path)
    for _ in range(int(turns)):
        with lock:
            add_one(file)


class CuratorLock(kazoo.recipe.lock.Lock):
    _NODE_NAME, _EXCLUDE_NAMES = "-lock-", ["-lock-"]


def countas(zk, path, file, turns):
    lock = CuratorLock(zk, path)
    for _ in range(int(turns)):
        with lock:
            add_one(file)


def countrw(zk, path, file, turns, seed):
    chance = random.Random(int(seed))
    turn = 0
    while turn < int(turns):
        if chance.random() < 0.5:
            with zk.ReadLock(path):
                before = number(file)
                time.sleep(0)
                assert number(file) == before, "somebody writes beside a reader"
        else:
            with zk.WriteLock(path):
                add_one(file)
            turn += 1


def enters(zk, path, *patterns):
    lock = zk.Lock(path, extra_lock_patterns=patterns)
    assert lock.acquire(timeout=DEADLINE)
    lock.release()


def waits(zk, path, *patterns):
    lock = zk.Lock(path, extra_lock_patterns=patterns)
    try:
        lock.acquire(timeout=1)
    except LockTimeout:
        return
    raise AssertionError("it got in")


def elects(zk, path, own, *others):
    election = zk.Election(path, own)
    assert election.contenders() == list(others), election.contenders()

    def lead():
        assert election.contenders() == [own], election.contenders()

    election.run(lead)


def adds(zk, path, n, times, before=None):
    counter = zk.Counter(path)
    assert before is None or counter.value == int(before), counter.value
    for _ in range(int(times)):
        counter += int(n)


def attends(zk, path, own, *others):
    party = zk.Party(path, own)
    # Before it joins: the others may leave as soon as they see it.
    assert sorted(party) == sorted(others), list(party)
    party.join()
    deadline = time.monotonic() + DEADLINE
    while list(party) != [own]:
        assert time.monotonic() < deadline, list(party)
        time.sleep(0.02)
    party.leave()


def takes(zk, path, permits, turns, seed):
    semaphore = zk.Semaphore(path, "kazoo", max_leases=int(permits))
    chance = random.Random(int(seed))
    for _ in range(int(turns)):
        with semaphore:
            assert len(semaphore.lease_holders()) <= int(permits)
            time.sleep(chance.random() / 500)


def finds(zk, path, permits, *holders):
    semaphore = zk.Semaphore(path, "kazoo", max_leases=int(permits))
    assert sorted(semaphore.lease_holders()) == sorted(holders), semaphore.lease_holders()
    taken = semaphore.acquire(blocking=False)
    assert taken == (len(holders) < int(permits)), taken
    if taken:
        assert sorted(semaphore.lease_holders()) == sorted([*holders, "kazoo"])
        semaphore.release()


def disagrees(zk, path, permits):
    try:
        zk.Semaphore(path, max_leases=int(permits)).acquire(timeout=DEADLINE)
    except ValueError as error:
        assert "Inconsistent max leases" in str(error), error
        return
    raise AssertionError("it has a permit")


def closes(zk, path):
    zk.Barrier(path).create()


def opens(zk, path):
    assert zk.Barrier(path).remove()


def stopped(zk, path):
    assert not zk.Barrier(path).wait(0.5)


def passes(zk, path):
    assert zk.Barrier(path).wait(0.5)


def main():
    zk = KazooClient(hosts=sys.argv[1], timeout=4)
    zk.start(DEADLINE)
    commands = [count, countas, countrw, enters, waits, elects, adds, attends]
    commands += [takes, finds, disagrees, closes, opens, stopped, passes]
    command = {command.__name__: command for command in commands}[sys.argv[2]]
    command(zk, *sys.argv[3:])
    zk.stop()
    zk.close()


if __name__ == "__main__":
    main()
