package fencepost.streams;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StateRestoreListener;

/** Says how many records of changelogs a store has been restored from. */
final class Restores implements StateRestoreListener {
    @Override
    public void onRestoreStart(TopicPartition partition, String store, long start, long end) {
        // The end tells it all.
    }

    @Override
    public void onBatchRestored(TopicPartition partition, String store, long end, long restored) {
        // The end tells it all.
    }

    @Override
    public void onRestoreEnd(TopicPartition partition, String store, long restored) {
        System.out.println("restored " + restored);
    }
}
