package fencepost.interop;

import java.util.Map;
import java.util.TreeMap;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Listens to the log of the client's network layer and keeps which version of each API was sent. */
final class Wire extends Handler {
    private static final Pattern HEADER = Pattern.compile("apiKey=(\\w+), apiVersion=(\\d+)");
    private static final Logger NETWORK = Logger.getLogger("org.apache.kafka.clients.NetworkClient");

    private final Map<String, Integer> sent = new TreeMap<>();

    /** Starts listening. The rest of the client's log is silenced up to errors. */
    static Wire listen() {
        Logger.getLogger("").setLevel(Level.SEVERE);
        Wire wire = new Wire();
        NETWORK.setUseParentHandlers(false);
        NETWORK.setLevel(Level.FINE);
        NETWORK.addHandler(wire);
        return wire;
    }

    /** Silences the client's log up to errors. */
    static void silence() {
        Logger.getLogger("").setLevel(Level.SEVERE);
    }

    @Override
    public synchronized void publish(LogRecord entry) {
        String message = entry.getMessage();
        if (!message.contains("Sending ")) {
            return;
        }
        Matcher header = HEADER.matcher(message);
        if (header.find()) {
            sent.merge(header.group(1), Integer.valueOf(header.group(2)), Math::max);
        }
    }

    /** Fails unless the transactions were those of version 2: implicit adds, an epoch for each transaction. */
    synchronized void requireTransactionVersion2() {
        requireAtLeast("PRODUCE", 12);
        requireAtLeast("END_TXN", 5);
        requireAtLeast("TXN_OFFSET_COMMIT", 5);
        for (String api : new String[] {"ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN"}) {
            if (sent.containsKey(api)) {
                throw new Failure(api + " was sent, so this was transaction version 1; sent: " + sent);
            }
        }
    }

    private void requireAtLeast(String api, int version) {
        if (sent.getOrDefault(api, -1) < version) {
            throw new Failure(api + " was to be sent in version " + version + " or later; sent: " + sent);
        }
    }

    synchronized String versions() {
        return "Produce " + sent.get("PRODUCE") + ", EndTxn " + sent.get("END_TXN") + ", TxnOffsetCommit " + sent.get("TXN_OFFSET_COMMIT");
    }

    /** The highest versions of Produce and EndTxn since this was last asked, -1 where none was sent. */
    synchronized String take() {
        String seen = sent.getOrDefault("PRODUCE", -1) + " " + sent.getOrDefault("END_TXN", -1);
        sent.clear();
        return seen;
    }

    @Override
    public void flush() {
        // Nothing is buffered.
    }

    @Override
    public void close() {
        // Nothing is held.
    }
}
