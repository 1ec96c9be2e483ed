package fencepost.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/**
 * A read-process-write pipeline that checks itself: some transactions abort, half way a worker is abandoned with a transaction
 * open, and at the end a read_committed reader sees every record once and in order. The transactions must be of version 2.
 */
final class Pipeline {
    private static final int BATCH = 10;

    private final Clients clients;
    private final Map<String, Object> consumerSettings;
    private final String source;
    private final String target;
    private final String group;
    private final String txn;

    Pipeline(Options options) {
        clients = new Clients(options.text("bootstrap"));
        consumerSettings = Map.of("group.protocol", options.text("group-protocol", "classic"));
        String tag = UUID.randomUUID().toString().substring(0, 8);
        source = "java-in-" + tag;
        target = "java-out-" + tag;
        group = "java-group-" + tag;
        txn = "java-txn-" + tag;
    }

    static String run(Options options) throws Exception {
        int records = options.number("records", 200);
        Wire wire = Wire.listen();
        Pipeline pipeline = new Pipeline(options);
        pipeline.clients.createTopics(pipeline.source, pipeline.target);
        pipeline.clients.fill(pipeline.source, 0, records);
        int aborted = pipeline.work(records, new Random(options.number("seed", 1)));
        int abortedRecords = pipeline.verify(records);
        wire.requireTransactionVersion2();
        return "records=" + records + " aborted_transactions=" + aborted + " aborted_records=" + abortedRecords
                + " old worker fenced; " + wire.versions();
    }

    private Worker worker() {
        return new Worker(clients, source, target, group, txn, BATCH, consumerSettings);
    }

    /** Copies everything; returns how many transactions did not commit. */
    private int work(int records, Random random) {
        long deadline = System.nanoTime() + 3 * Clients.PATIENCE.toNanos();
        int done = 0;
        int aborted = 0;
        boolean replaced = false;
        Worker worker = worker();
        worker.subscribe();
        while (done < records) {
            if (System.nanoTime() > deadline) {
                throw new Failure("stuck after " + done + " of " + records + " records");
            }
            ConsumerRecords<String, String> batch = worker.poll();
            if (batch.isEmpty()) {
                continue;
            }
            worker.copy(batch);
            if (!replaced && done >= records / 2) {
                worker = replace(worker);
                replaced = true;
                aborted++;
            } else if (aborted < 2 || random.nextInt(4) == 0) {
                worker.abort();
                aborted++;
            } else {
                worker.commit();
                done += batch.count();
            }
        }
        worker.close();
        if (!replaced) {
            throw new Failure("too few records for a change of worker");
        }
        return aborted;
    }

    /** Leaves a worker with its transaction open, and starts another with the same transactional id. */
    private Worker replace(Worker old) {
        old.consumer.close();
        Worker next = worker();
        next.subscribe();
        try {
            old.commit();
            throw new Failure("the old worker could commit");
        } catch (ProducerFencedException | InvalidProducerEpochException e) {
            old.producer.close();
        }
        return next;
    }

    /** Compares the output with the input; returns how many aborted records lie in the output. */
    private int verify(int records) {
        List<List<String>> wanted = new ArrayList<>();
        for (int part = 0; part < Clients.PARTITIONS; part++) {
            List<String> values = new ArrayList<>();
            for (int n = part; n < records; n += Clients.PARTITIONS) {
                values.add(Clients.value(n));
            }
            wanted.add(values);
        }
        Comparison.of(wanted, clients.read(target, "read_committed")).require();
        int every = clients.read(target, "read_uncommitted").stream().mapToInt(List::size).sum();
        if (every <= records) {
            throw new Failure("no aborted record in the output: " + every + " of " + records);
        }
        long lag = clients.lag(group, source);
        if (lag != 0) {
            throw new Failure("committed offsets are " + lag + " behind");
        }
        return every - records;
    }
}
