/* Apache's C client as a client of `zk-fuzz client`: it does what clients do, and takes every
 * error. The server is the one that the variable ZK_ADDRESS names.
 *
 * It prints what it reads, which is true where nobody lies to it. */

#define THREADED
#include <zookeeper/zookeeper.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SESSION_TIMEOUT_MS = 1000, TURNS = 3, WAIT_STEP_US = 10000, WAIT_STEPS = 300 };

static void on_event(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)type, (void)state, (void)path, (void)context;
}

static void on_done(int code, const void *context) {
    (void)code, (void)context;
}

/* Prints text that needs no escapes in JSON. */
static void claim(const char *path, const struct Stat *stat, const char *data, int length) {
    for (int i = 0; i < length; i++) {
        if (data[i] < ' ' || data[i] > '~' || data[i] == '"' || data[i] == '\\') {
            return;
        }
    }
    printf("{\"path\":\"%s\",\"version\":%d,\"data\":\"%.*s\"}\n", path, stat->version, length, data);
}

static void get(zhandle_t *zh, const char *path) {
    char data[256];
    int length = sizeof data;
    struct Stat stat;
    if (zoo_wget(zh, path, on_event, NULL, data, &length, &stat) == ZOK && length >= 0 &&
        length <= (int)sizeof data) {
        claim(path, &stat, data, length);
    }
}

static void work(zhandle_t *zh, int turn) {
    char path[64], child[128], created[128], in_multi[64];
    struct Stat stat;
    struct String_vector names;
    struct ACL_vector acl;
    snprintf(path, sizeof path, "/c%d", turn);
    zoo_create(zh, path, "one", 3, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, created, sizeof created);
    get(zh, path);
    zoo_set2(zh, path, "two", 3, -1, &stat);
    get(zh, path);
    snprintf(child, sizeof child, "%s/none", path);
    zoo_wexists(zh, child, on_event, NULL, &stat);
    snprintf(child, sizeof child, "%s/n-", path);
    for (int i = 0; i < 2; i++) {
        zoo_create2(zh, child, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, created,
                    sizeof created, &stat);
    }
    if (zoo_wget_children2(zh, path, on_event, NULL, &names, &stat) == ZOK) {
        for (int i = 0; i < names.count; i++) {
            snprintf(child, sizeof child, "%s/%s", path, names.data[i]);
            zoo_delete(zh, child, -1);
        }
        deallocate_String_vector(&names);
    }
    if (zoo_get_children(zh, path, 0, &names) == ZOK) {
        deallocate_String_vector(&names);
    }
    zoo_add_auth(zh, "digest", "a:b", 3, on_done, NULL);
    if (zoo_get_acl(zh, path, &acl, &stat) == ZOK) {
        deallocate_ACL_vector(&acl);
    }
    zoo_set_acl(zh, path, -1, &ZOO_OPEN_ACL_UNSAFE);
    snprintf(child, sizeof child, "%s/multi", path);
    zoo_op_result_t results[4];
    zoo_op_t ops[4];
    zoo_check_op_init(&ops[0], path, -1);
    zoo_create_op_init(&ops[1], child, "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, in_multi,
                       sizeof in_multi);
    zoo_set_op_init(&ops[2], path, "three", 5, -1, &stat);
    zoo_delete_op_init(&ops[3], child, -1);
    zoo_multi(zh, 4, ops, results);
    get(zh, path);
    zoo_remove_all_watches(zh, path, ZWATCHTYPE_ANY, 0);
    zoo_delete(zh, path, -1);
}

int main(void) {
    const char *address = getenv("ZK_ADDRESS");
    if (address == NULL) {
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zhandle_t *zh = zookeeper_init(address, on_event, SESSION_TIMEOUT_MS, NULL, NULL, 0);
    if (zh == NULL) {
        return 0;
    }
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < WAIT_STEPS && zoo_state(zh) != ZOO_CONNECTED_STATE; i++) {
            if (is_unrecoverable(zh)) {
                break;
            }
            usleep(WAIT_STEP_US);
        }
        if (zoo_state(zh) == ZOO_CONNECTED_STATE) {
            work(zh, turn);
        }
    }
    zookeeper_close(zh);
    puts("done");
    return 0;
}
