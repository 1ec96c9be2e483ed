package fencepost.matrix;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/** The calls of an administrator, one after the other. */
final class Steps {
    private static final long SETTLING_NS = 10_000_000_000L;
    private static final Pattern READS = Pattern.compile("describe.*|list.*");

    /** One call and what has to hold of its answer. */
    interface Step {
        void run() throws Exception;
    }

    private final List<String> done = new ArrayList<>();

    /** Runs one. What is read may lag behind what was changed: Apache Kafka's brokers hear of it later than the controller answers. */
    Steps then(String name, Step step) {
        long began = System.nanoTime();
        while (true) {
            try {
                step.run();
                done.add(name);
                return this;
            } catch (Exception e) {
                if (!READS.matcher(name).matches() || System.nanoTime() - began > SETTLING_NS) {
                    throw new IllegalStateException(name + ": " + e, e);
                }
            }
            try {
                Thread.sleep(50);
            } catch (InterruptedException e) {
                throw new IllegalStateException(name, e);
            }
        }
    }

    String names() {
        return String.join(", ", done);
    }
}
