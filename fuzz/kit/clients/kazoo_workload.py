"""kazoo as a client of `zk-fuzz client`: it does what clients do, and takes every error.

It prints what it reads, which is true where nobody lies to it. It ends with status 0 whatever the
server does, after at most some seconds: that it hangs or that a thread of it dies is for zk-fuzz to
see.
"""

import json
import logging
import os
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

logging.basicConfig(level=logging.ERROR, stream=sys.stderr)


def step(what, *arguments, **options):
    """Makes a call, and returns its result or None."""
    try:
        return what(*arguments, **options)
    except (KazooException, KazooTimeoutError) as error:
        print("refused:", what.__name__, type(error).__name__, flush=True)
        return None


def read(client, path):
    got = step(client.get, path, watch=lambda event: None)
    if got is not None:
        data, stat = got
        claim = {"path": path, "version": stat.version, "data": data.decode("latin-1")}
        print(json.dumps(claim), flush=True)


def work(client, turn):
    path = "/a%d" % turn
    step(client.create, path, b"one", makepath=True)
    read(client, path)
    step(client.set, path, b"two")
    read(client, path)
    step(client.exists, path + "/none", watch=lambda event: None)
    for _ in range(2):
        step(client.create, path + "/n-", b"", ephemeral=True, sequence=True)
    step(client.get_children, path, watch=lambda event: None, include_data=True)
    step(client.get_acls, path)
    step(client.set_acls, path, [make_digest_acl("a", "b", all=True)])
    step(client.add_auth, "digest", "a:b")
    transaction = client.transaction()
    transaction.check(path, -1)
    transaction.create(path + "/multi", b"x")
    transaction.set_data(path, b"three")
    transaction.delete(path + "/multi")
    step(transaction.commit)
    read(client, path)
    step(client.sync, path)
    step(client.server_version)
    step(client.delete, path, recursive=True)


def main():
    address = os.environ["ZK_ADDRESS"]
    retry = KazooRetry(max_tries=2, delay=0.05, max_delay=0.2)
    client = KazooClient(
        hosts=address,
        timeout=1.0,
        connection_retry=KazooRetry(max_tries=30, delay=0.05, max_delay=0.2),
        command_retry=retry,
    )
    step(client.start, timeout=3)
    for turn in range(3):
        if client.connected:
            work(client, turn)
    step(client.stop)
    step(client.close)
    print("done", flush=True)


main()
