"""A plugin for pytest that lets kazoo's own tests run against a server of ours.

kazoo's test harness writes configurations and starts Java. Here its cluster is one server, the
program that ZK_SUITE_SERVER names with its arguments: `zk-embedded`, or one that speaks like it. It
prints its two addresses and obeys `stop` and `start`. The folder ZK_SUITE_CERTIFICATES has the
clients' certificate `cert`, its `key` and the `ca` that has signed it. Tests that need a second
server fail.

The outcome of each test is written to the file that ZK_SUITE_OUTCOMES names, one a line.
"""

import atexit
import os
import subprocess
import sys
import types


class Server:
    """What kazoo's harness knows of a server."""

    def __init__(self):
        self.process = None
        self.running = False
        self.address = None
        self.secure_address = None

    def run(self):
        if self.running:
            return
        if self.process is None:
            self.process = subprocess.Popen(
                os.environ["ZK_SUITE_SERVER"].split(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.address = self._announced("listening on ")
            self.secure_address = self._announced("tls on ")
        else:
            self._order("start")
        self.running = True

    def stop(self):
        """Stops the server, which keeps its data."""
        if self.running:
            self._order("stop")
            self.running = False

    def destroy(self):
        """Ends the server and its data."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process = None
        self.running = False

    def _order(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n", order

    def _announced(self, what):
        line = self.process.stdout.readline()
        assert line.startswith(what), f"the server did not start: {line}"
        return line[len(what) :].strip()


class ZookeeperCluster:
    """Stands in for the class of this name in `kazoo.testing.common`."""

    def __init__(self, **_):
        self.servers = [Server()]
        atexit.register(self.terminate)

    def __getitem__(self, index):
        return self.servers[index]

    def __iter__(self):
        return iter(self.servers)

    def start(self):
        for server in self:
            server.run()

    def terminate(self):
        for server in self:
            server.destroy()

    def get_logs(self):
        return []

    def get_ssl_client_configuration(self):
        def read(name):
            folder = os.environ["ZK_SUITE_CERTIFICATES"]
            with open(os.path.join(folder, name), "rb") as file:
                return file.read()

        names = {"client_key": "key", "client_cert": "cert", "ca_cert": "ca"}
        return {what: read(name) for what, name in names.items()}


# The real module needs packages that make certificates.
common = types.ModuleType("kazoo.testing.common")
common.ZookeeperCluster = ZookeeperCluster
sys.modules["kazoo.testing.common"] = common


outcomes = {}


def pytest_runtest_logreport(report):
    # A test is set up, called and torn down; it passes if all of them do.
    if report.outcome != "passed" or report.when == "call":
        if outcomes.get(report.nodeid, "passed") == "passed":
            outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish(session):
    # With xdist, the tests run in workers and all reports reach their controller.
    if hasattr(session.config, "workerinput"):
        return
    with open(os.environ["ZK_SUITE_OUTCOMES"], "w") as file:
        for nodeid, outcome in sorted(outcomes.items()):
            print(outcome, nodeid, file=file)
