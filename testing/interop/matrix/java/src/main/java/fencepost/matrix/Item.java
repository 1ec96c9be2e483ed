package fencepost.matrix;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;

/** One record, as it is sent and compared. */
record Item(int partition, String key, String value, String header) {
    static final String END = "end";

    /** {@code count} records, dealt out over the partitions in turn. */
    static List<Item> made(String prefix, int count, int partitions) {
        List<Item> items = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            items.add(new Item(i % partitions, "k" + i, prefix + i, "h" + i));
        }
        return items;
    }

    static Item of(ConsumerRecord<String, String> record) {
        Header[] headers = record.headers().toArray();
        String header = headers.length == 1 && headers[0].key().equals("h") ? new String(headers[0].value()) : "";
        return new Item(record.partition(), record.key(), record.value(), header);
    }

    ProducerRecord<String, String> to(String topic) {
        ProducerRecord<String, String> record = new ProducerRecord<>(topic, partition, key, value);
        record.headers().add("h", header.getBytes());
        return record;
    }
}
