/* Apache's C client against the server HOST:PORT of the first argument, which must have no nodes
 * yet.
 *
 * Each function is a claim about the server, with paths of its own; the first check that does not
 * hold ends the program. All that is awaited is an event, with a deadline. */

#define THREADED
#include <zookeeper/zookeeper.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { DEADLINE_SECONDS = 20, SESSION_TIMEOUT_MS = 4000, LARGEST_FD = 64 };

static const char *address;

#define EQUAL(actual, expected) \
    equal(__LINE__, #actual, (long long)(actual), (long long)(expected))
#define SAME(actual, expected) same(__LINE__, #actual, (actual), (expected))
#define OK(call) EQUAL(call, ZOK)
#define SEES(watch, kind, path) sees(__LINE__, (watch), (kind), (path))

static void equal(int line, const char *what, long long actual, long long expected) {
    if (actual != expected) {
        printf("line %d: %s is %lld, not %lld\n", line, what, actual, expected);
        exit(1);
    }
}

static void same(int line, const char *what, const char *actual, const char *expected) {
    if (strcmp(actual, expected) != 0) {
        printf("line %d: %s is \"%s\", not \"%s\"\n", line, what, actual, expected);
        exit(1);
    }
}

/* What the client calls back with, in order. The client's threads put it in, the checks take it. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct {
        const char *watch;
        int kind;
        char path[64];
    } events[64];
    int taken, put;
} told = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static void tell(const char *watch, int kind, const char *path) {
    pthread_mutex_lock(&told.lock);
    told.events[told.put].watch = watch;
    told.events[told.put].kind = kind;
    snprintf(told.events[told.put].path, sizeof told.events[0].path, "%s", path);
    told.put++;
    pthread_cond_signal(&told.more);
    pthread_mutex_unlock(&told.lock);
}

static void sees(int line, const char *watch, int kind, const char *path) {
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += DEADLINE_SECONDS;
    pthread_mutex_lock(&told.lock);
    while (told.taken == told.put) {
        equal(line, "waiting", pthread_cond_timedwait(&told.more, &told.lock, &deadline), 0);
    }
    int next = told.taken++;
    pthread_mutex_unlock(&told.lock);
    same(line, "watch", told.events[next].watch, watch);
    same(line, "path", told.events[next].path, path);
    equal(line, "kind", told.events[next].kind, kind);
}

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *name) {
    (void)zh, (void)path;
    if (type == ZOO_SESSION_EVENT) {
        tell(name, state, "");
    }
}

static void on_watch(zhandle_t *zh, int type, int state, const char *path, void *name) {
    (void)zh, (void)state;
    /* Every watch hears of the session, too. */
    if (type != ZOO_SESSION_EVENT) {
        tell(name, type, path);
    }
}

static void on_done(int code, const void *name) {
    tell(name, code, "");
}

static zhandle_t *connected(const char *name) {
    zhandle_t *zh = zookeeper_init(address, on_session, SESSION_TIMEOUT_MS, NULL, (void *)name, 0);
    EQUAL(zh != NULL, 1);
    SEES(name, ZOO_CONNECTED_STATE, "");
    return zh;
}

static int create(zhandle_t *zh, const char *path, const char *data, int mode) {
    return zoo_create(zh, path, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, mode, NULL, 0);
}

static int set(zhandle_t *zh, const char *path, const char *data, int version) {
    return zoo_set(zh, path, data, (int)strlen(data), version);
}

static const char *get(zhandle_t *zh, const char *path, struct Stat *stat) {
    static char data[64];
    int length = sizeof data - 1;
    OK(zoo_get(zh, path, 0, data, &length, stat));
    EQUAL(length >= 0, 1);
    data[length] = 0;
    return data;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static const char *children(zhandle_t *zh, const char *path) {
    static char list[256];
    struct String_vector names;
    OK(zoo_get_children(zh, path, 0, &names));
    qsort(names.data, (size_t)names.count, sizeof *names.data, by_name);
    list[0] = 0;
    for (int i = 0; i < names.count; i++) {
        strcat(strcat(list, i > 0 ? " " : ""), names.data[i]);
    }
    deallocate_String_vector(&names);
    return list;
}

static void reads_and_writes(zhandle_t *zh) {
    struct Stat stat, created;
    char path[64];
    OK(zoo_create2(zh, "/n", "one", 3, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, path, sizeof path,
                   &created));
    SAME(path, "/n");
    EQUAL(create(zh, "/n", "", ZOO_PERSISTENT), ZNODEEXISTS);
    SAME(get(zh, "/n", &stat), "one");
    EQUAL(stat.czxid, created.czxid);
    EQUAL(stat.mzxid, created.czxid);
    EQUAL(stat.ctime, created.ctime);
    EQUAL(stat.version, 0);
    EQUAL(stat.dataLength, 3);

    OK(zoo_set2(zh, "/n", "two", 3, 0, &stat));
    EQUAL(stat.version, 1);
    EQUAL(stat.mzxid > created.czxid, 1);
    SAME(get(zh, "/n", &stat), "two");
    EQUAL(set(zh, "/n", "", 0), ZBADVERSION);
    EQUAL(set(zh, "/none", "", -1), ZNONODE);
    EQUAL(zoo_exists(zh, "/none", 0, &stat), ZNONODE);
    OK(zoo_exists(zh, "/n", 0, &stat));

    OK(create(zh, "/n/b", "", ZOO_PERSISTENT));
    OK(create(zh, "/n/a", "", ZOO_CONTAINER));
    EQUAL(create(zh, "/none/a", "", ZOO_PERSISTENT), ZNONODE);
    SAME(children(zh, "/n"), "a b");
    struct String_vector names;
    OK(zoo_get_children2(zh, "/n", 0, &names, &stat));
    EQUAL(names.count, 2);
    deallocate_String_vector(&names);
    EQUAL(stat.numChildren, 2);
    EQUAL(stat.cversion, 2);

    EQUAL(zoo_delete(zh, "/n", -1), ZNOTEMPTY);
    EQUAL(zoo_delete(zh, "/n/b", 1), ZBADVERSION);
    OK(zoo_delete(zh, "/n/b", 0));
    EQUAL(zoo_delete(zh, "/n/b", -1), ZNONODE);
    SAME(children(zh, "/n"), "a");

    /* No data is not the same as data of length 0. */
    int length = sizeof path;
    OK(zoo_create(zh, "/n/null", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0));
    OK(zoo_get(zh, "/n/null", 0, path, &length, &stat));
    EQUAL(length, -1);
    EQUAL(stat.dataLength, 0);
    length = sizeof path;
    OK(zoo_get(zh, "/n/a", 0, path, &length, &stat));
    EQUAL(length, 0);
}

static void fires_watches(zhandle_t *zh) {
    struct Stat stat;
    struct String_vector names;
    char data[64];
    int length = sizeof data;
    zhandle_t *other = connected("other");

    EQUAL(zoo_wexists(zh, "/w", on_watch, "exists", &stat), ZNONODE);
    OK(create(other, "/w", "", ZOO_PERSISTENT));
    SEES("exists", ZOO_CREATED_EVENT, "/w");

    OK(zoo_wget(zh, "/w", on_watch, "data", data, &length, &stat));
    OK(set(other, "/w", "two", -1));
    SEES("data", ZOO_CHANGED_EVENT, "/w");

    OK(zoo_wget_children(zh, "/w", on_watch, "children", &names));
    OK(create(other, "/w/c", "", ZOO_PERSISTENT));
    SEES("children", ZOO_CHILD_EVENT, "/w");
    OK(zoo_wget_children2(zh, "/w", on_watch, "children", &names, &stat));
    deallocate_String_vector(&names);
    OK(zoo_delete(other, "/w/c", -1));
    SEES("children", ZOO_CHILD_EVENT, "/w");

    OK(zoo_wexists(zh, "/w", on_watch, "exists", &stat));
    OK(zoo_delete(other, "/w", -1));
    SEES("exists", ZOO_DELETED_EVENT, "/w");

    /* To take back one of the watches of a path, the client asks whether the server knows of it; to
     * take back all of them, it has them removed. */
    OK(create(other, "/w", "", ZOO_PERSISTENT));
    OK(zoo_wexists(zh, "/w", on_watch, "exists", &stat));
    OK(zoo_remove_watches(zh, "/w", ZWATCHTYPE_DATA, on_watch, "exists", 0));
    OK(zoo_wget_children(zh, "/w", on_watch, "children", &names));
    OK(zoo_remove_all_watches(zh, "/w", ZWATCHTYPE_CHILD, 0));
    OK(zookeeper_close(other));
}

static void numbers_and_forgets_nodes(zhandle_t *zh) {
    struct Stat stat;
    char path[64];
    OK(create(zh, "/s", "", ZOO_PERSISTENT));
    OK(zoo_create(zh, "/s/n-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL, path,
                  sizeof path));
    SAME(path, "/s/n-0000000000");
    OK(zoo_create(zh, "/s/", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, path,
                  sizeof path));
    SAME(path, "/s/0000000001");
    OK(zoo_exists(zh, path, 0, &stat));
    EQUAL(stat.ephemeralOwner, zoo_client_id(zh)->client_id);
    EQUAL(create(zh, "/s/0000000001/c", "", ZOO_PERSISTENT), ZNOCHILDRENFOREPHEMERALS);

    zhandle_t *other = connected("other");
    OK(create(other, "/s/theirs", "", ZOO_EPHEMERAL));
    OK(zoo_wexists(zh, "/s/theirs", on_watch, "exists", &stat));
    EQUAL(stat.ephemeralOwner, zoo_client_id(other)->client_id);
    OK(zookeeper_close(other));
    SEES("exists", ZOO_DELETED_EVENT, "/s/theirs");
    SAME(children(zh, "/s"), "0000000001 n-0000000000");
}

static void commits_all_or_nothing(zhandle_t *zh) {
    struct Stat written, stat;
    char new[64], numbered[64];
    zoo_op_result_t results[5];
    zoo_op_t good[5];
    OK(create(zh, "/t", "one", ZOO_PERSISTENT));
    OK(create(zh, "/t/old", "", ZOO_PERSISTENT));
    zoo_check_op_init(&good[0], "/t", 0);
    zoo_create_op_init(&good[1], "/t/new", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, new,
                       sizeof new);
    zoo_create_op_init(&good[2], "/t/new/s-", "", 0, &ZOO_OPEN_ACL_UNSAFE,
                       ZOO_PERSISTENT_SEQUENTIAL, numbered, sizeof numbered);
    zoo_set_op_init(&good[3], "/t", "two", 3, 0, &written);
    zoo_delete_op_init(&good[4], "/t/old", 0);
    OK(zoo_multi(zh, 5, good, results));
    for (int i = 0; i < 5; i++) {
        OK(results[i].err);
    }
    SAME(new, "/t/new");
    SAME(numbered, "/t/new/s-0000000000");
    EQUAL(written.version, 1);
    SAME(get(zh, "/t", &stat), "two");
    EQUAL(stat.mzxid, written.mzxid);
    SAME(children(zh, "/t"), "new");

    zoo_op_t bad[4];
    zoo_create_op_init(&bad[0], "/t/never", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, new,
                       sizeof new);
    zoo_set_op_init(&bad[1], "/t", "never", 5, 1, &written);
    zoo_delete_op_init(&bad[2], "/t/new", -1);
    zoo_check_op_init(&bad[3], "/t", 0);
    EQUAL(zoo_multi(zh, 4, bad, results), ZNOTEMPTY);
    OK(results[0].err);
    OK(results[1].err);
    EQUAL(results[2].err, ZNOTEMPTY);
    EQUAL(results[3].err, ZRUNTIMEINCONSISTENCY);
    SAME(get(zh, "/t", &stat), "two");
    EQUAL(stat.version, 1);
    SAME(children(zh, "/t"), "new");
}

static void keeps_strangers_out(zhandle_t *zh) {
    /* digest of owner:secret */
    static const char OWNER[] = "owner:Vj++wdU3sMAbt+g9TyKj1BT+usI=";
    struct ACL_vector acl;
    struct Stat stat;
    char data[64];
    int length = sizeof data;
    zhandle_t *owner = connected("owner");
    OK(zoo_add_auth(owner, "digest", "owner:secret", 12, on_done, "auth"));
    SEES("auth", ZOK, "");
    OK(zoo_create(owner, "/a", "mine", 4, &ZOO_CREATOR_ALL_ACL, ZOO_PERSISTENT, NULL, 0));
    OK(zoo_get_acl(owner, "/a", &acl, &stat));
    EQUAL(acl.count, 1);
    EQUAL(acl.data[0].perms, ZOO_PERM_ALL);
    SAME(acl.data[0].id.scheme, "digest");
    SAME(acl.data[0].id.id, OWNER);
    deallocate_ACL_vector(&acl);

    EQUAL(zoo_get(zh, "/a", 0, data, &length, &stat), ZNOAUTH);
    EQUAL(set(zh, "/a", "theirs", -1), ZNOAUTH);
    EQUAL(create(zh, "/a/c", "", ZOO_PERSISTENT), ZNOAUTH);
    EQUAL(zoo_get_acl(zh, "/a", &acl, &stat), ZNOAUTH);
    EQUAL(zoo_set_acl(zh, "/a", -1, &ZOO_OPEN_ACL_UNSAFE), ZNOAUTH);

    OK(zoo_set_acl(owner, "/a", 0, &ZOO_READ_ACL_UNSAFE));
    EQUAL(zoo_set_acl(owner, "/a", 0, &ZOO_READ_ACL_UNSAFE), ZNOAUTH);
    SAME(get(zh, "/a", &stat), "mine");
    EQUAL(stat.aversion, 1);
    OK(zoo_get_acl(zh, "/a", &acl, &stat));
    EQUAL(acl.count, 1);
    EQUAL(acl.data[0].perms, ZOO_PERM_READ);
    SAME(acl.data[0].id.scheme, "world");
    SAME(acl.data[0].id.id, "anyone");
    deallocate_ACL_vector(&acl);
    EQUAL(set(owner, "/a", "too late", -1), ZNOAUTH);

    EQUAL(zoo_create(zh, "/b", "", 0, &ZOO_CREATOR_ALL_ACL, ZOO_PERSISTENT, NULL, 0), ZINVALIDACL);
    OK(zookeeper_close(owner));
}

/* Breaks the only connection there is. */
static void drop_connection(void) {
    struct sockaddr_storage peer;
    int dropped = 0;
    for (int fd = 0; fd < LARGEST_FD; fd++) {
        socklen_t length = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && peer.ss_family == AF_INET) {
            EQUAL(shutdown(fd, SHUT_RDWR), 0);
            dropped++;
        }
    }
    EQUAL(dropped, 1);
}

static void resumes_a_session_with_its_watches(zhandle_t *zh) {
    struct Stat stat;
    struct String_vector names;
    char data[64];
    int length = sizeof data;
    clientid_t session = *zoo_client_id(zh);
    OK(zoo_add_auth(zh, "digest", "owner:secret", 12, on_done, "auth"));
    SEES("auth", ZOK, "");
    OK(create(zh, "/r", "", ZOO_PERSISTENT));
    OK(create(zh, "/r/e", "", ZOO_EPHEMERAL));
    OK(zoo_create(zh, "/r/mine", "", 0, &ZOO_CREATOR_ALL_ACL, ZOO_PERSISTENT, NULL, 0));
    OK(zoo_wget(zh, "/r", on_watch, "data", data, &length, &stat));
    OK(zoo_wget_children(zh, "/r", on_watch, "children", &names));
    deallocate_String_vector(&names);
    EQUAL(zoo_wexists(zh, "/r/not", on_watch, "exists", &stat), ZNONODE);

    drop_connection();
    SEES("main", ZOO_CONNECTING_STATE, "");
    SEES("main", ZOO_CONNECTED_STATE, "");

    EQUAL(memcmp(&session, zoo_client_id(zh), sizeof session), 0);
    OK(zoo_exists(zh, "/r/e", 0, &stat));
    EQUAL(stat.ephemeralOwner, session.client_id);
    OK(set(zh, "/r/mine", "still", -1));
    OK(set(zh, "/r", "two", -1));
    SEES("data", ZOO_CHANGED_EVENT, "/r");
    OK(create(zh, "/r/not", "", ZOO_PERSISTENT));
    SEES("exists", ZOO_CREATED_EVENT, "/r/not");
    SEES("children", ZOO_CHILD_EVENT, "/r");
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*run)(zhandle_t *);
    } claims[] = {
#define CLAIM(name) {#name, name}
        CLAIM(reads_and_writes),
        CLAIM(fires_watches),
        CLAIM(numbers_and_forgets_nodes),
        CLAIM(commits_all_or_nothing),
        CLAIM(keeps_strangers_out),
        CLAIM(resumes_a_session_with_its_watches),
    };
    EQUAL(count, 2);
    address = arguments[1];
    setvbuf(stdout, NULL, _IONBF, 0);
    zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);

    zhandle_t *zh = connected("main");
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        puts(claims[i].name);
        claims[i].run(zh);
    }
    OK(zookeeper_close(zh));
    EQUAL(told.taken, told.put);
    return 0;
}
