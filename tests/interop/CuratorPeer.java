// Curator's locks, told what to do line by line, against the server HOST:PORT of the first
// argument, with a session timeout of as many milliseconds as the second one says.
//
// Curator's locks belong to threads, so each line names the one that is to do it: "THREAD COMMAND
// ARGUMENTS". Each thread answers its lines in order, others do not wait for it: "THREAD ok ...",
// or "THREAD failed: ...". The end of the input ends the program, and its session.
//
//   lock PATH, unlock PATH          InterProcessMutex; `ok NODE`, and `ok`
//   read PATH, unread PATH          InterProcessReadWriteLock
//   write PATH, unwrite PATH
//   try PATH MS                     lock, or `ok timeout`
//   count PATH FILE TURNS           takes the mutex TURNS times, and adds one to the number in FILE
//   countrw PATH FILE TURNS SEED    the same with the write lock, and reads with the read lock in
//                                   between; fails if somebody writes meanwhile
//   countmulti PATHS FILES TURNS    takes two or three of three locks in each turn, by one
//                                   InterProcessMultiLock, in the order of PATHS; adds one to the
//                                   number in the file of each. Both are lists with commas
//   revocable PATH                  says "THREAD revoked PATH" when somebody wants the mutex that
//                                   is locked next
//   revoke NODE                     asks the holder with that node to let go
//   latch PATH ID, unlatch PATH     LeaderLatch with this id: waits until it leads; and closes it
//   select PATH ID, unselect PATH   LeaderSelector with this id: waits until it leads; and resigns
//   leader PATH KIND                the id of the leader, as a latch or a selector sees it
//   take PATH PERMITS               InterProcessSemaphoreV2: waits for a lease; and returns one
//   give PATH
//   trytake PATH PERMITS MS         take, or `ok timeout`
//   counttake PATH FILE TURNS       takes the only lease of a semaphore TURNS times, and each time
//                                   adds one to the number in FILE
//   add PATH N TIMES                adds N to the DistributedAtomicLong so often: its new value
//   value PATH                      the value of the DistributedAtomicLong
//   close PATH, open PATH           DistributedBarrier
//   pass PATH                       waits until it is open
//   enter PATH PARTIES, leave PATH  DistributedDoubleBarrier
//   join PATH ID, part PATH         GroupMember: joins and watches the group; and leaves it
//   cache PATH, tree PATH           CuratorCache of a node, or of a tree; and the end of either
//   uncache PATH

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.retry.RetryNTimes;

final class CuratorPeer {
    private final CuratorFramework client;
    private final Map<String, InterProcessMutex> mutexes = new ConcurrentHashMap<>();
    private final Map<String, InterProcessReadWriteLock> pairs = new ConcurrentHashMap<>();
    private final Map<String, LeaderLatch> latches = new ConcurrentHashMap<>();
    private final Map<String, Selected> selectors = new ConcurrentHashMap<>();
    private final Map<String, Deque<Lease>> leases = new ConcurrentHashMap<>();
    private final Map<String, DistributedDoubleBarrier> rounds = new ConcurrentHashMap<>();
    private final Map<String, GroupMember> members = new ConcurrentHashMap<>();
    private final Map<String, CuratorCache> caches = new ConcurrentHashMap<>();

    private CuratorPeer(CuratorFramework client) {
        this.client = client;
    }

    public static void main(String[] arguments) throws Exception {
        var retry = new RetryNTimes(50, 100);
        var session = Integer.parseInt(arguments[1]);
        try (var client = CuratorFrameworkFactory.newClient(arguments[0], session, 4000, retry)) {
            client.start();
            client.blockUntilConnected();
            say("ready");
            new CuratorPeer(client).listen();
        }
        // Threads that still wait for a lock do not keep the process.
        System.exit(0);
    }

    private void listen() throws Exception {
        Map<String, ExecutorService> threads = new HashMap<>();
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (var line = input.readLine(); line != null; line = input.readLine()) {
            var words = line.split(" ");
            var thread = threads.computeIfAbsent(
                    words[0], name -> Executors.newSingleThreadExecutor());
            thread.submit(() -> {
                try {
                    say((words[0] + " ok " + obey(words)).strip());
                } catch (Exception error) {
                    say(words[0] + " failed: " + error);
                }
            });
        }
    }

    private String obey(String[] words) throws Exception {
        var path = words[2];
        var mutex = mutexes.computeIfAbsent(path, it -> new InterProcessMutex(client, it));
        var pair = pairs.computeIfAbsent(path, it -> new InterProcessReadWriteLock(client, it));
        switch (words[1]) {
            case "lock":
                mutex.acquire();
                return first(mutex);
            case "try":
                var got = mutex.acquire(Long.parseLong(words[3]), TimeUnit.MILLISECONDS);
                return got ? first(mutex) : "timeout";
            case "unlock":
                mutex.release();
                return "";
            case "read":
                pair.readLock().acquire();
                return "";
            case "unread":
                pair.readLock().release();
                return "";
            case "write":
                pair.writeLock().acquire();
                return "";
            case "unwrite":
                pair.writeLock().release();
                return "";
            case "count":
                count(mutex, Path.of(words[3]), Integer.parseInt(words[4]));
                return "";
            case "countrw":
                var chance = new Random(Long.parseLong(words[5]));
                countrw(pair, Path.of(words[3]), Integer.parseInt(words[4]), chance);
                return "";
            case "countmulti":
                var files = words[3].split(",");
                countmulti(path.split(","), files, Integer.parseInt(words[4]));
                return "";
            case "revocable":
                mutex.makeRevocable(it -> say(words[0] + " revoked " + path));
                return "";
            case "revoke":
                Revoker.attemptRevoke(client, path);
                return "";
            case "latch":
                var latch = new LeaderLatch(client, path, words[3]);
                latches.put(path, latch);
                latch.start();
                latch.await();
                return "";
            case "unlatch":
                latches.remove(path).close();
                return "";
            case "select":
                var selected = new Selected(client, path, words[3]);
                selectors.put(path, selected);
                selected.leads.await();
                return "";
            case "unselect":
                selectors.remove(path).resign();
                return "";
            case "leader":
                return leader(words[3], path);
            case "take":
                taken(path).push(semaphore(path, words[3]).acquire());
                return "";
            case "trytake":
                var lease = semaphore(path, words[3])
                        .acquire(Long.parseLong(words[4]), TimeUnit.MILLISECONDS);
                if (lease == null) {
                    return "timeout";
                }
                taken(path).push(lease);
                return "";
            case "give":
                taken(path).pop().close();
                return "";
            case "counttake":
                counttake(semaphore(path, "1"), Path.of(words[3]), Integer.parseInt(words[4]));
                return "";
            case "add":
                return add(path, Long.parseLong(words[3]), Integer.parseInt(words[4]));
            case "value":
                return Long.toString(number(path).get().postValue());
            case "close":
                new DistributedBarrier(client, path).setBarrier();
                return "";
            case "open":
                new DistributedBarrier(client, path).removeBarrier();
                return "";
            case "pass":
                new DistributedBarrier(client, path).waitOnBarrier();
                return "";
            case "enter":
                var parties = Integer.parseInt(words[3]);
                var round = new DistributedDoubleBarrier(client, path, parties);
                rounds.put(path, round);
                round.enter();
                return "";
            case "leave":
                rounds.remove(path).leave();
                return "";
            case "join":
                var member = new GroupMember(client, path, words[3]);
                members.put(path, member);
                member.start();
                return "";
            case "part":
                members.remove(path).close();
                return "";
            case "cache":
                var one = CuratorCache.Options.SINGLE_NODE_CACHE;
                cache(CuratorCache.build(client, path, one), path);
                return "";
            case "tree":
                cache(CuratorCache.build(client, path), path);
                return "";
            case "uncache":
                caches.remove(path).close();
                return "";
            default:
                throw new IllegalArgumentException(words[1]);
        }
    }

    private void cache(CuratorCache cache, String path) {
        caches.put(path, cache);
        cache.start();
    }

    private DistributedAtomicLong number(String path) {
        return new DistributedAtomicLong(client, path, new RetryNTimes(50, 10));
    }

    private String add(String path, long n, int times) throws Exception {
        var number = number(path);
        var value = 0L;
        for (var turn = 0; turn < times;) {
            var added = number.add(n);
            if (added.succeeded()) {
                value = added.postValue();
                turn++;
            }
        }
        return Long.toString(value);
    }

    private String leader(String kind, String path) throws Exception {
        // Neither is a candidate before it is started.
        if (kind.equals("latch")) {
            return new LeaderLatch(client, path).getLeader().getId();
        }
        var unheard = new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) {}
        };
        return new LeaderSelector(client, path, unheard).getLeader().getId();
    }

    /** A LeaderSelector that leads until it is told to resign. */
    private static final class Selected extends LeaderSelectorListenerAdapter {
        final CountDownLatch leads = new CountDownLatch(1);
        private final CountDownLatch resigns = new CountDownLatch(1);
        private final LeaderSelector selector;

        Selected(CuratorFramework client, String path, String id) {
            selector = new LeaderSelector(client, path, this);
            selector.setId(id);
            selector.start();
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws Exception {
            leads.countDown();
            resigns.await();
        }

        void resign() {
            resigns.countDown();
            selector.close();
        }
    }

    private static void count(InterProcessMutex mutex, Path file, int turns) throws Exception {
        for (var turn = 0; turn < turns; turn++) {
            mutex.acquire();
            Files.writeString(file, Long.toString(number(file) + 1));
            mutex.release();
        }
    }

    private Deque<Lease> taken(String path) {
        return leases.computeIfAbsent(path, it -> new ConcurrentLinkedDeque<>());
    }

    private InterProcessSemaphoreV2 semaphore(String path, String permits) {
        return new InterProcessSemaphoreV2(client, path, Integer.parseInt(permits));
    }

    private static void counttake(
            InterProcessSemaphoreV2 semaphore, Path file, int turns) throws Exception {
        for (var turn = 0; turn < turns; turn++) {
            try (var lease = semaphore.acquire()) {
                Files.writeString(file, Long.toString(number(file) + 1));
            }
        }
    }

    private static void countrw(
            InterProcessReadWriteLock pair, Path file, int turns, Random chance) throws Exception {
        for (var turn = 0; turn < turns;) {
            if (chance.nextBoolean()) {
                pair.readLock().acquire();
                var number = number(file);
                Thread.yield();
                if (number(file) != number) {
                    throw new IllegalStateException("somebody writes beside a reader");
                }
                pair.readLock().release();
                continue;
            }
            count(pair.writeLock(), file, 1);
            turn++;
        }
    }

    private void countmulti(String[] paths, String[] files, int turns) throws Exception {
        for (var turn = 0; turn < turns; turn++) {
            // All of them, or all but one.
            var left = turn % 4;
            var chosen = IntStream.range(0, 3).filter(index -> index != left).boxed().toList();
            var names = chosen.stream().map(index -> paths[index]).toList();
            var locks = new InterProcessMultiLock(client, names);
            locks.acquire();
            for (var index : chosen) {
                var file = Path.of(files[index]);
                Files.writeString(file, Long.toString(number(file) + 1));
            }
            locks.release();
        }
    }

    private static long number(Path file) throws Exception {
        return Long.parseLong(Files.readString(file).strip());
    }

    /** The holder's node: the one with the lowest sequence number. */
    private static String first(InterProcessMutex mutex) throws Exception {
        var nodes = mutex.getParticipantNodes();
        var number = Comparator.comparing((String node) -> node.substring(node.length() - 10));
        return nodes.stream().min(number).orElseThrow();
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }
}
