"""kazoo against the server HOST:PORT of the first argument, which must have no nodes yet.

Each function is a claim about the server, with paths of its own; the first that does not hold ends
the script with its traceback. All that is awaited is an event, with a deadline.
"""

import queue
import subprocess
import sys
import threading
from contextlib import contextmanager

from kazoo import exceptions as errors
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.protocol.connection import _CONNECTION_DROP
from kazoo.protocol.states import EventType, KazooState
from kazoo.security import (
    ACL,
    CREATOR_ALL_ACL,
    Id,
    OPEN_ACL_UNSAFE,
    Permissions,
    READ_ACL_UNSAFE,
    make_digest_acl,
    make_digest_acl_credential,
)

DEADLINE = 20
ADDRESS = sys.argv[1]


@contextmanager
def connected(**options):
    client = KazooClient(hosts=ADDRESS, timeout=4, **options)
    client.start(DEADLINE)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def fails(error):
    try:
        yield
    except error as raised:
        # kazoo's errors derive from one another, so the class itself is compared.
        equal(type(raised), error)
    else:
        raise AssertionError(f"no {error.__name__}")


def equal(actual, expected):
    assert actual == expected, f"{actual!r} is not {expected!r}"


class Watch(queue.Queue):
    """What a watch is told, in order."""

    __call__ = queue.Queue.put

    def sees(self, kind, path):
        event = self.get(timeout=DEADLINE)
        equal((event.type, event.path), (kind, path))


def reads_and_writes(zk):
    equal(zk.create("/n", b"one"), "/n")
    with fails(NodeExistsError):
        zk.create("/n")
    data, created = zk.get("/n")
    equal((data, created.version, created.dataLength, created.numChildren), (b"one", 0, 3, 0))
    equal((created.ephemeralOwner, created.cversion, created.aversion), (0, 0, 0))
    equal((created.mzxid, created.pzxid), (created.czxid, created.czxid))
    equal(created.mtime, created.ctime)

    written = zk.set("/n", b"\x00\xff", version=0)
    equal((written.version, written.dataLength, written.czxid), (1, 2, created.czxid))
    assert written.mzxid > created.mzxid
    equal(zk.get("/n"), (b"\x00\xff", written))
    equal(zk.exists("/n"), written)
    with fails(errors.BadVersionError):
        zk.set("/n", b"", version=0)
    with fails(NoNodeError):
        zk.set("/none", b"")
    equal(zk.exists("/none"), None)
    with fails(NoNodeError):
        zk.get("/none")

    path, stat = zk.create("/n/c", b"", include_data=True)
    equal((path, stat), ("/n/c", zk.exists("/n/c")))
    zk.create("/n/ü", b"x" * 500_000)
    equal(zk.get("/n/ü")[0], b"x" * 500_000)
    names, parent = zk.get_children("/n", include_data=True)
    equal(sorted(names), ["c", "ü"])
    equal((parent.numChildren, parent.cversion, parent.version), (2, 2, 1))
    equal(parent.pzxid, zk.exists("/n/ü").czxid)
    equal(sorted(zk.get_children("/n")), ["c", "ü"])
    with fails(NoNodeError):
        zk.get_children("/none")

    with fails(errors.NotEmptyError):
        zk.delete("/n")
    with fails(errors.BadVersionError):
        zk.delete("/n/c", version=1)
    zk.delete("/n/c", version=0)
    with fails(NoNodeError):
        zk.delete("/n/c")
    with fails(NoNodeError):
        zk.create("/no/parent")
    zk.create("/no/parent/at/first", makepath=True)
    zk.ensure_path("/no/parent/at/last")
    equal(sorted(zk.get_children("/no/parent/at")), ["first", "last"])
    zk.delete("/no", recursive=True)
    equal(zk.exists("/no"), None)
    equal(zk.sync("/n"), "/n")
    with fails(errors.BadArgumentsError):
        zk.delete("/")


def answers_in_the_order_of_the_requests(zk):
    zk.create("/order")
    writes = [zk.set_async("/order", b"%d" % n, version=n) for n in range(200)]
    equal([write.get(timeout=DEADLINE).version for write in writes], list(range(1, 201)))
    equal(zk.get("/order")[0], b"199")


def fires_watches(zk):
    there, data, children = Watch(), Watch(), Watch()
    with connected() as other:
        equal(zk.exists("/w", watch=there), None)
        other.create("/w", b"one")
        there.sees(EventType.CREATED, "/w")

        equal(zk.get("/w", watch=data)[0], b"one")
        other.set("/w", b"two")
        data.sees(EventType.CHANGED, "/w")

        equal(zk.get_children("/w", watch=children), [])
        other.create("/w/c")
        children.sees(EventType.CHILD, "/w")
        zk.get_children("/w", watch=children, include_data=True)
        other.delete("/w/c")
        children.sees(EventType.CHILD, "/w")

        zk.exists("/w", watch=there)
        zk.get_children("/w", watch=children)
        other.delete("/w")
        there.sees(EventType.DELETED, "/w")
        children.sees(EventType.DELETED, "/w")


def feeds_the_watchers_recipes(zk):
    seen = queue.Queue()
    zk.create("/recipe")
    zk.DataWatch("/recipe", lambda data, stat: seen.put(data))
    equal(seen.get(timeout=DEADLINE), b"")
    zk.ChildrenWatch("/recipe", seen.put)
    equal(seen.get(timeout=DEADLINE), [])
    for data in (b"one", b"two"):
        zk.set("/recipe", data)
        equal(seen.get(timeout=DEADLINE), data)
    zk.create("/recipe/c")
    equal(seen.get(timeout=DEADLINE), ["c"])


def numbers_and_forgets_nodes(zk):
    zk.create("/s")
    equal(zk.create("/s/n-", sequence=True), "/s/n-0000000000")
    equal(zk.create("/s/other", ephemeral=True), "/s/other")
    # The number is the parent's count of children ever created.
    equal(zk.create("/s/n-", sequence=True, ephemeral=True), "/s/n-0000000002")
    zk.delete("/s/n-0000000002")
    equal(zk.create("/s/", sequence=True), "/s/0000000003")
    equal(zk.exists("/s/other").ephemeralOwner, zk.client_id[0])
    with fails(errors.NoChildrenForEphemeralsError):
        zk.create("/s/other/c")

    gone = Watch()
    with connected() as other:
        other.create("/s/theirs", ephemeral=True)
        equal(zk.exists("/s/theirs", watch=gone).ephemeralOwner, other.client_id[0])
    gone.sees(EventType.DELETED, "/s/theirs")
    equal(sorted(zk.get_children("/s")), ["0000000003", "n-0000000000", "other"])


def expires_the_session_of_a_dead_process_alone(zk):
    zk.create("/mortal")
    zk.create("/mortal/alive", ephemeral=True)
    born, gone = Watch(), Watch()
    session = zk.client_id
    zk.exists("/mortal/dead", watch=born)
    subprocess.run([sys.executable, __file__, ADDRESS, "die"], check=True, timeout=DEADLINE)
    born.sees(EventType.CREATED, "/mortal/dead")
    if zk.exists("/mortal/dead", watch=gone):
        gone.sees(EventType.DELETED, "/mortal/dead")
    equal(zk.get_children("/mortal"), ["alive"])
    equal(zk.client_id, session)


def die():
    client = KazooClient(hosts=ADDRESS, timeout=1)
    client.start(DEADLINE)
    client.create("/mortal/dead", ephemeral=True)
    # The connection breaks without a word to the server.


def commits_all_or_nothing(zk):
    zk.create("/t", b"one")
    zk.create("/t/old")
    children = Watch()
    zk.get_children("/t", watch=children)
    good = zk.transaction()
    good.check("/t", version=0)
    good.create("/t/new", b"new")
    good.create("/t/new/s-", sequence=True)
    good.set_data("/t", b"two", version=0)
    good.delete("/t/old", version=0)
    checked, new, numbered, written, deleted = good.commit()
    equal((checked, new, numbered, deleted), (True, "/t/new", "/t/new/s-0000000000", True))
    equal(zk.get("/t"), (b"two", written._replace(numChildren=1, cversion=3, pzxid=written.mzxid)))
    children.sees(EventType.CHILD, "/t")
    # The operations are one transaction, with one zxid.
    equal(zk.exists("/t/new").czxid, written.mzxid)

    bad = zk.transaction()
    bad.create("/t/never")
    bad.set_data("/t", b"never")
    bad.check("/t", version=1)
    bad.delete("/t/new")
    before = zk.get("/t")
    equal(
        [type(result) for result in bad.commit()],
        [
            errors.RolledBackError,
            errors.RolledBackError,
            errors.BadVersionError,
            errors.RuntimeInconsistency,
        ],
    )
    equal(zk.get("/t"), before)
    equal(zk.exists("/t/never"), None)
    equal(zk.get_children("/t"), ["new"])
    equal(zk.transaction().commit(), [])


def keeps_strangers_out(zk):
    owner_acl = make_digest_acl("owner", "secret", all=True)
    equal(owner_acl.id.id, make_digest_acl_credential("owner", "secret"))
    with connected(auth_data=[("digest", "owner:secret")]) as owner:
        # The scheme `auth` stands for whoever creates the node.
        owner.create("/a", b"mine", acl=CREATOR_ALL_ACL)
        owner.create("/a/c")
        equal(owner.get_acls("/a")[0], [owner_acl])
        for forbidden in (
            lambda: zk.get("/a"),
            lambda: zk.set("/a", b"theirs"),
            lambda: zk.get_children("/a"),
            lambda: zk.get_acls("/a"),
            lambda: zk.set_acls("/a", OPEN_ACL_UNSAFE),
            lambda: zk.create("/a/d"),
            lambda: zk.delete("/a/c"),
        ):
            with fails(errors.NoAuthError):
                forbidden()


        everyone_reads = [owner_acl, *READ_ACL_UNSAFE]
        equal(owner.set_acls("/a", everyone_reads, version=0).aversion, 1)
        with fails(errors.BadVersionError):
            owner.set_acls("/a", everyone_reads, version=0)
        equal(zk.get("/a")[0], b"mine")
        # A stranger may read who has access, but not the hash of a password.
        masked = [owner_acl._replace(id=Id("digest", "owner:x")), *READ_ACL_UNSAFE]
        acls, stat = zk.get_acls("/a")
        equal((acls, stat.aversion), (masked, 1))
        equal(owner.get_acls("/a")[0], everyone_reads)
        with fails(errors.NoAuthError):
            zk.set("/a", b"theirs")
        wrong = zk.transaction()
        wrong.create("/a-too")
        wrong.delete("/a/c")
        equal(
            [type(result) for result in wrong.commit()],
            [errors.RolledBackError, errors.NoAuthError],
        )
        equal(zk.exists("/a-too"), None)

    with connected() as late:
        with fails(errors.NoAuthError):
            late.set("/a", b"early")
        equal(late.add_auth("digest", "owner:secret"), True)
        late.set("/a", b"late")
        with reconnects(late):
            drop_connection(late)
        late.set("/a", b"later")

    for acl in (
        ACL(Permissions.ALL, Id("auth", "")),
        ACL(Permissions.ALL, Id("nobody", "knows")),
        ACL(Permissions.ALL, Id("world", "someone")),
    ):
        with fails(errors.InvalidACLError):
            zk.create("/a-bad", acl=[acl])
    with connected() as refused, fails(errors.AuthFailedError):
        refused.add_auth("nonsense", "owner:secret")


def hands_a_lock_over(zk):
    with connected() as other:
        first, second = zk.Lock("/lock", "first"), other.Lock("/lock", "second")
        assert first.acquire(timeout=DEADLINE)
        assert not second.acquire(blocking=False)

        queued, entered = Watch(), threading.Event()

        def wait_and_enter():
            second.acquire(timeout=DEADLINE)
            entered.set()

        zk.get_children("/lock", watch=queued)
        waiter = threading.Thread(target=wait_and_enter)
        waiter.start()
        queued.sees(EventType.CHILD, "/lock")
        equal(first.contenders(), ["first", "second"])
        assert not entered.is_set()
        first.release()
        assert entered.wait(DEADLINE)
        waiter.join(DEADLINE)
        equal(first.contenders(), ["second"])
        # The second leaves with its session.
    assert first.acquire(timeout=DEADLINE)
    first.release()
    equal(zk.get_children("/lock"), [])


def resumes_a_session(zk):
    with connected() as client:
        client.create("/resumed", ephemeral=True)
        session = client.client_id
        with reconnects(client):
            drop_connection(client)
        equal(client.client_id, session)
        equal(client.exists("/resumed").ephemeralOwner, session[0])

        # Without the password, others get a session of their own. The id alone does take the
        # owner's connection away.
        with reconnects(client), connected(client_id=(session[0], bytes(16))) as thief:
            assert thief.client_id[0] != session[0]
        equal(client.client_id, session)
        equal(client.exists("/resumed").ephemeralOwner, session[0])


def drop_connection(client):
    client._call(_CONNECTION_DROP, client.handler.async_result())


@contextmanager
def reconnects(client):
    states = queue.Queue()
    client.add_listener(states.put)
    yield
    equal(states.get(timeout=DEADLINE), KazooState.SUSPENDED)
    equal(states.get(timeout=DEADLINE), KazooState.CONNECTED)
    client.remove_listener(states.put)


def answers_four_letter_words(zk):
    equal(zk.command(b"ruok"), "imok")
    equal(zk.command(b"isro"), "rw")
    assert "\nMode: standalone\n" in zk.command(b"srvr"), zk.command(b"srvr")
    assert zk.server_version() >= (3, 4), zk.server_version()


def works_below_a_chroot(zk):
    zk.create("/root")
    below = KazooClient(hosts=f"{ADDRESS}/root", timeout=4)
    below.start(DEADLINE)
    created = Watch()
    below.exists("/n", watch=created)
    equal(below.create("/n", b"below"), "/n")
    created.sees(EventType.CREATED, "/n")
    equal(below.get_children("/"), ["n"])
    equal(zk.get("/root/n")[0], b"below")
    below.stop()
    below.close()


CLAIMS = [
    reads_and_writes,
    answers_in_the_order_of_the_requests,
    fires_watches,
    feeds_the_watchers_recipes,
    numbers_and_forgets_nodes,
    expires_the_session_of_a_dead_process_alone,
    commits_all_or_nothing,
    keeps_strangers_out,
    hands_a_lock_over,
    resumes_a_session,
    answers_four_letter_words,
    works_below_a_chroot,
]


def main():
    with connected() as zk:
        session = zk.client_id
        for claim in CLAIMS:
            print(claim.__name__, flush=True)
            claim(zk)
        equal(zk.client_id, session)


if __name__ == "__main__":
    die() if sys.argv[2:] == ["die"] else main()
