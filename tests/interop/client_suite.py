"""A plugin for pytest that lets the own tests of clients in Python run against a server of ours.

kazoo's test harness, which zk-shell's tests use too, writes configurations and starts Java. Here
its cluster is one server, the program that ZK_SUITE_SERVER names with its arguments: `zk-embedded`,
or one that speaks like it. It prints its two addresses and obeys `stop` and `start`. The folder
ZK_SUITE_CERTIFICATES has the clients' certificate `cert`, its `key` and the `ca` that has signed
it. Tests that need a second server fail.

Tests that take a server as it is find it in environment variables: ZK_SUITE_VARIABLES lists them as
NAME=VALUE, separated by spaces, with {address}, {host} and {port} for those of the server.

The outcome of each test is written to the file that ZK_SUITE_OUTCOMES names, one a line.
"""

import atexit
import os
import subprocess
import sys
import types
import unittest


class Server:
    """What kazoo's harness knows of a server.

    One program serves all tests of a process, at one address: the harness goes on with the address
    that it has read, and clients that a failed test has left behind go on trying it.
    """

    def __init__(self):
        self.running = True
        self._process = subprocess.Popen(
            os.environ["ZK_SUITE_SERVER"].split(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self._announced("listening on ")
        self.secure_address = self._announced("tls on ")

    def run(self):
        if not self.running:
            self._order("start")
            self.running = True

    def stop(self):
        """Stops the server, which keeps its data."""
        if self.running:
            self._order("stop")
            self.running = False

    def end(self):
        self._process.stdin.close()
        self._process.wait()

    def _order(self, order):
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer == "ok\n", f"the server answers {order} with {answer!r}"

    def _announced(self, what):
        line = self._process.stdout.readline()
        assert line.startswith(what), f"the server did not start: {line}"
        return line[len(what) :].strip()


class ZookeeperCluster:
    """Stands in for the class of this name in `kazoo.testing.common`."""

    def __init__(self, **_):
        self.servers = [Server()]
        atexit.register(self._end)

    def __getitem__(self, index):
        return self.servers[index]

    def __iter__(self):
        return iter(self.servers)

    def start(self):
        for server in self:
            server.run()

    def terminate(self):
        """Stops the servers. The nodes stay; each test has a folder of its own for its nodes."""
        for server in self:
            server.stop()

    def _end(self):
        for server in self:
            server.end()

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

# zk-shell's tests call it by this name, which Python 3.12 has removed.
unittest.TestCase.assertEquals = unittest.TestCase.assertEqual


def announce_server(variables):
    """Starts a server and sets these variables. What reads them may do so as it is imported."""
    server = Server()
    atexit.register(server.end)
    host, port = server.address.split(":")
    for variable in variables.split():
        name, value = variable.split("=", 1)
        os.environ[name] = value.format(address=server.address, host=host, port=port)


# With xdist, the tests run in workers.
if "PYTEST_XDIST_WORKER" in os.environ and os.environ["ZK_SUITE_VARIABLES"]:
    announce_server(os.environ["ZK_SUITE_VARIABLES"])


outcomes = {}
terminal = None


def pytest_sessionstart(session):
    global terminal
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")


def pytest_runtest_logreport(report):
    # All reports reach the controller of the workers too.
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    # A failure is printed at once: the whole run may be ended before pytest prints it.
    if report.outcome == "failed":
        terminal.write_line(
            f"\n{report.nodeid}, {report.when}, {report.duration:.1f} s:\n{report.longreprtext}"
        )
    # A test is set up, called and torn down; it passes if all of them do.
    if report.outcome != "passed" or report.when == "call":
        if outcomes.get(report.nodeid, "passed") == "passed":
            outcomes[report.nodeid] = report.outcome


def pytest_handlecrashitem(crashitem, sched):
    """Takes what a crashed worker has done out of the work for others. xdist 3.8.0 leaves it there,
    and waits for ever for a new worker that first gets a class without a test to run."""
    for scope, done in list(sched.workqueue.items()):
        if crashitem in done:
            done[crashitem] = True
        if all(done.values()):
            del sched.workqueue[scope]


def pytest_sessionfinish(session):
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    with open(os.environ["ZK_SUITE_OUTCOMES"], "w") as file:
        for nodeid, outcome in sorted(outcomes.items()):
            print(outcome, nodeid, file=file)
