//! The clients whose own tests run here: where their tests are, how these find the server, and
//! which of them end in another way than passed. `tests/run` has the versions and installs them.

/// Tests, by the start of their names, and why they are in a list.
pub(super) type Tests = &'static [(&'static str, &'static str)];

/// A client with tests of its own.
#[derive(Debug)]
pub(super) struct ClientSuite {
    /// The Python package with the tests.
    pub(super) package: &'static str,
    /// Those of its files to run; all if there are none here.
    pub(super) files: &'static [&'static str],
    /// Further options of pytest.
    pub(super) options: &'static [&'static str],
    /// Where the tests look for the address of the server: see `tests/interop/client_suite.py`. It
    /// is empty for those that use kazoo's harness.
    pub(super) variables: &'static str,
    /// How many workers share the tests, each with a server of its own. Most of the time they wait.
    pub(super) workers: u32,
    /// The least number of tests that must pass.
    pub(super) passing: usize,
    /// Tests that fail or are skipped on one real server.
    pub(super) not_on_a_real_server: Tests,
    /// Tests that a real server may fail on a busy machine.
    pub(super) slow_on_a_real_server: Tests,
    /// Tests that pass on a real server and not on the embedded one.
    pub(super) not_on_the_embedded_server: Tests,
    /// Tests that the embedded server may pass or fail.
    pub(super) races: Tests,
}

pub(super) const KAZOO: ClientSuite = ClientSuite {
    package: "kazoo.tests",
    files: &[],
    options: &[],
    variables: "",
    workers: 6,
    passing: 300,
    not_on_a_real_server: &[
        ("test_build.py::", "it tests kazoo's own CI"),
        ("test_client.py::TestClient::test_update_host_list", "it takes a second server"),
        ("test_client.py::TestReconfig::", "it takes an ensemble"),
        ("test_connection.py::TestReadOnlyMode::", "it takes an ensemble"),
        ("test_eventlet_handler.py::", "it takes eventlet"),
        ("test_gevent_handler.py::", "it takes gevent"),
        ("test_sasl.py::", "it takes SASL"),
        ("test_utils.py::TestCreateTCPConnection::test_timeout_arg_eventlet", "it takes eventlet"),
    ],
    slow_on_a_real_server: &[(
        "test_client.py::TestClient::test_request_queuing_session_",
        "it gives a server five seconds to stop, to start again and to let the client in",
    )],
    not_on_the_embedded_server: &[],
    races: &[(
        "test_connection.py::TestConnectionDrop::test_connection_dropped",
        "it drops the connection behind a write of 1 MB and expects no answer to be there yet",
    )],
};

pub(super) const AIOZK: ClientSuite = ClientSuite {
    package: "aiozk.test",
    files: &[],
    options: &["--asyncio-mode=auto"],
    variables: "ZK_HOST={host} ZK_PORT={port}",
    workers: 2,
    passing: 80,
    not_on_a_real_server: &[],
    slow_on_a_real_server: &[],
    not_on_the_embedded_server: &[],
    races: &[],
};

/// Its other tests are of other services, and of what takes none.
pub(super) const TOOZ: ClientSuite = ClientSuite {
    package: "tooz.tests",
    files: &["test_coordination.py", "test_partitioner.py"],
    options: &[],
    variables: "TOOZ_TEST_URL=kazoo://{address}",
    workers: 2,
    passing: 85,
    not_on_a_real_server: &[
        (
            "test_coordination.py::TestAPI::test_get_lock_locking_exclusive_and_shared",
            "tooz has no shared locks on ZooKeeper",
        ),
        (
            "test_coordination.py::TestAPI::test_get_lock_locking_shared_and_exclusive",
            "tooz has no shared locks on ZooKeeper",
        ),
        (
            "test_coordination.py::TestAPI::test_get_lock_release_broken",
            "tooz cannot break locks on ZooKeeper",
        ),
        (
            "test_coordination.py::TestAPI::test_get_shared_lock",
            "tooz has no shared locks on ZooKeeper",
        ),
        (
            "test_coordination.py::TestAPI::test_timeout",
            "it is for services that are no judges of who is alive",
        ),
        (
            "test_coordination.py::TestAPI::test_watch_join_group_disappear",
            "it is for etcd, memcached and Redis",
        ),
    ],
    slow_on_a_real_server: &[],
    not_on_the_embedded_server: &[],
    races: &[],
};

pub(super) const ZK_SHELL: ClientSuite = ClientSuite {
    package: "zk_shell.tests",
    files: &[],
    options: &[],
    variables: "",
    workers: 2,
    passing: 120,
    not_on_a_real_server: &[
        ("test_basic_cmds.py::BasicCmdsTestCase::test_reconfig", "it takes an ensemble"),
        (
            "test_basic_cmds.py::BasicCmdsTestCase::test_set_get_acls",
            "it reads a digest, which servers since 3.5 hide from those who may not administer",
        ),
    ],
    slow_on_a_real_server: &[],
    not_on_the_embedded_server: &[],
    races: &[],
};
