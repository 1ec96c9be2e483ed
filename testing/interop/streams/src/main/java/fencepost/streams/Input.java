package fencepost.streams;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What is fed, as a function of the record's number: the same for who feeds and for who checks. */
final class Input {
    static final String LINES = "lines";
    static final String LEFT = "left";
    static final String RIGHT = "right";
    /** Unequal on purpose: the join needs repartition topics with as many partitions as the larger one. */
    static final Map<String, Integer> PARTITIONS = Map.of(LINES, 4, LEFT, 3, RIGHT, 4);

    private static final int KEYS = 40;
    private static final long STEP_MS = 10;
    /** Both sides meet where their numbers are no further apart than one round of the keys. */
    static final long JOIN_MS = KEYS * STEP_MS;
    static final long WINDOW_MS = 1000;

    private Input() {
    }

    /** Three words of fifty, so that some are frequent and some are rare. */
    static List<String> words(long n) {
        return List.of("word" + n % 50, "word" + n * 7 % 31, "word" + n * n % 13);
    }

    static String key(long n) {
        return "key" + n % KEYS;
    }

    /** Event time, from the start of the run. */
    static long timestamp(long base, long n) {
        return base + n * STEP_MS;
    }

    /** How often each word comes in the first records. */
    static Map<String, Long> wordCounts(long fed) {
        Map<String, Long> counts = new TreeMap<>();
        for (long n = 0; n < fed; n++) {
            words(n).forEach(word -> counts.merge(word, 1L, Long::sum));
        }
        return counts;
    }

    /** Each pair that the join must give, as {@code key:left-right}, once. */
    static Map<String, Long> pairs(long fed) {
        Map<String, Long> pairs = new TreeMap<>();
        for (long left = 0; left < fed; left++) {
            for (long right : new long[] {left - KEYS, left, left + KEYS}) {
                if (right >= 0 && right < fed) {
                    pairs.merge(key(left) + ":" + left + "-" + right, 1L, Long::sum);
                }
            }
        }
        return pairs;
    }

    /** How many pairs of each key fall into each window: a pair has the later of its two times. */
    static Map<String, Long> windowCounts(long base, long fed) {
        Map<String, Long> counts = new TreeMap<>();
        for (String pair : pairs(fed).keySet()) {
            String[] parts = pair.split("[:-]");
            long at = timestamp(base, Math.max(Long.parseLong(parts[1]), Long.parseLong(parts[2])));
            counts.merge(parts[0] + "@" + at / WINDOW_MS * WINDOW_MS, 1L, Long::sum);
        }
        return counts;
    }
}
