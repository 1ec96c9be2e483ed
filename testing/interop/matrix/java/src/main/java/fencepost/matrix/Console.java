package fencepost.matrix;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/** The calls that web consoles such as AKHQ and kafka-ui make, with their options and in their order: overview, topic, records, groups, changes. */
final class Console extends Administrator {
    Console(Client client, String topic) {
        super(client, topic);
    }

    @Override
    String run() throws Exception {
        client.create(2, topic);
        client.send(Map.of(), topic, Item.made("v", 40, 2));
        Steps steps = new Steps();
        try (KafkaConsumer<String, String> member = client.member(group, topic, "classic")) {
            for (int read = 0; read < 40;) {
                read += member.poll(Client.PAUSE).count();
            }
            member.commitSync();
            overview(steps);
            topic(steps);
            groups(steps);
        }
        records(steps);
        changes(steps);
        return steps.names();
    }

    private void overview(Steps steps) {
        steps.then("describeCluster", () -> {
            var found = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
            Node controller = found.controller().get();
            Check.that(found.nodes().get().size() == 1 && controller != null && found.clusterId().get() != null, controller);
            // Without an authorizer there is nothing to tell; the call must not fail.
            found.authorizedOperations().get();
        }).then("describeConfigs of the broker", () -> {
            ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(broker()));
            DescribeConfigsOptions all = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
            var found = admin.describeConfigs(List.of(broker), all).all().get().get(broker);
            // kafka-ui tells the version of the cluster by this, and AKHQ whether a topic may be deleted.
            Check.that(found.get("auto.create.topics.enable") != null && found.entries().size() > 50, found.entries().size());
        }).then("describeFeatures", () -> {
            var found = admin.describeFeatures().featureMetadata().get();
            Check.that(found.finalizedFeatures().containsKey("metadata.version"), found);
        }).then("describeLogDirs", this::logDirectory).then("describeAcls", () -> {
            try {
                admin.describeAcls(AclBindingFilter.ANY).values().get();
            } catch (ExecutionException e) {
                // The consoles take this for "no authorizer" and hide the page.
                Check.that(e.getCause() instanceof SecurityDisabledException, e);
            }
        }).then("describeClientQuotas", () -> {
            var found = admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get();
            Check.that(found.isEmpty(), found);
        });
    }

    private void topic(Steps steps) {
        steps.then("listTopics with internal ones", () -> {
            var found = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
            Check.that(found.contains(topic) && found.contains("__consumer_offsets"), found);
        }).then("describeTopics", () -> {
            var found = admin.describeTopics(admin.listTopics().names().get()).allTopicNames().get().get(topic);
            boolean whole = found.partitions().stream().allMatch(p -> p.leader() != null && p.isr().size() == 1 && p.replicas().size() == 1);
            Check.that(whole && found.partitions().size() == 2, found);
        }).then("describeConfigs of topics", () -> {
            DescribeConfigsOptions all = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
            var found = admin.describeConfigs(List.of(resource), all).all().get().get(resource);
            ConfigEntry retention = found.get("retention.ms");
            Check.that(retention.isDefault() && retention.documentation() != null, retention);
        }).then("listOffsets, first and last", () -> {
            TopicPartition one = new TopicPartition(topic, 1);
            var first = admin.listOffsets(Map.of(zero, OffsetSpec.earliest(), one, OffsetSpec.earliest())).all().get();
            var last = admin.listOffsets(Map.of(zero, OffsetSpec.latest(), one, OffsetSpec.latest())).all().get();
            Check.that(first.get(zero).offset() == 0 && last.get(zero).offset() == 20 && last.get(one).offset() == 20, last);
        }).then("listPartitionReassignments", () -> {
            Check.that(admin.listPartitionReassignments().reassignments().get().isEmpty(), "some");
        }).then("describeProducers", () -> {
            Check.that(admin.describeProducers(Set.of(zero)).all().get().containsKey(zero), "none");
        }).then("listTransactions", () -> admin.listTransactions().all().get());
    }

    private void groups(Steps steps) {
        steps.then("listConsumerGroups", this::listed).then("describeConsumerGroups", () -> {
            var found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            var member = found.members().iterator().next();
            Check.that(member.assignment().topicPartitions().size() == 2 && found.partitionAssignor().equals("range"), found);
            Check.that(member.host().startsWith("/") && !member.clientId().isEmpty(), member);
        }).then("listConsumerGroupOffsets of many", () -> {
            var found = admin.listConsumerGroupOffsets(Map.of(group, new ListConsumerGroupOffsetsSpec())).all().get().get(group);
            Check.that(found.size() == 2 && found.get(zero).offset() == 20, found);
        });
    }

    /** Browsing: the last records of a partition, and those from a time on. */
    private void records(Steps steps) {
        steps.then("browsing by offset and by time", () -> {
            try (KafkaConsumer<String, String> reader = client.consumer(Map.of())) {
                reader.assign(List.of(zero));
                long end = reader.endOffsets(List.of(zero)).get(zero);
                reader.seek(zero, end - 5);
                List<Long> offsets = new ArrayList<>();
                while (offsets.size() < 5) {
                    for (ConsumerRecord<String, String> record : reader.poll(Client.PAUSE)) {
                        offsets.add(record.offset());
                    }
                }
                Check.that(offsets.equals(List.of(15L, 16L, 17L, 18L, 19L)), offsets);
                var at = reader.offsetsForTimes(Map.of(zero, 0L)).get(zero);
                Check.that(at.offset() == 0, at);
                Check.that(reader.offsetsForTimes(Map.of(zero, System.currentTimeMillis() + 60_000)).get(zero) == null, "an offset of the future");
            }
        });
    }

    private void changes(Steps steps) {
        steps.then("incrementalAlterConfigs", () -> {
            var set = new AlterConfigOp(new ConfigEntry("retention.ms", "60000"), AlterConfigOp.OpType.SET);
            var delete = new AlterConfigOp(new ConfigEntry("segment.bytes", ""), AlterConfigOp.OpType.DELETE);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(set, delete))).all().get();
        }).then("createPartitions", () -> {
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get();
        }).then("deleteRecords up to the end", () -> {
            var found = admin.deleteRecords(Map.of(zero, RecordsToDelete.beforeOffset(-1))).lowWatermarks().get(zero).get();
            Check.that(found.lowWatermark() == 20, found);
        }).then("deleteConsumerGroupOffsets", () -> {
            admin.deleteConsumerGroupOffsets(group, Set.of(zero)).all().get();
            Check.that(!client.committed(group, topic).containsKey(0), client.committed(group, topic));
        }).then("deleteConsumerGroups", this::withoutGroup).then("deleteTopics", this::withoutTopic);
    }
}
