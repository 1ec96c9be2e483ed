package fencepost.matrix;

import java.util.List;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Calls of Admin about one topic and one group. */
abstract class Administrator {
    final Client client;
    final Admin admin;
    final String topic;
    final String group;
    final TopicPartition zero;
    final ConfigResource resource;

    Administrator(Client client, String topic) {
        this.client = client;
        this.topic = topic;
        admin = client.admin;
        group = topic + "-group";
        zero = new TopicPartition(topic, 0);
        resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    /** Makes the calls and tells their names. */
    abstract String run() throws Exception;

    /** The id of the only broker. */
    final int broker() throws Exception {
        return admin.describeCluster().nodes().get().iterator().next().id();
    }

    /** Its only log directory, which holds the topic. */
    final void logDirectory() throws Exception {
        int id = broker();
        LogDirDescription found = admin.describeLogDirs(List.of(id)).allDescriptions().get().get(id).values().iterator().next();
        Check.that(found.error() == null && found.replicaInfos().get(zero).size() > 0, found);
    }

    /** The group is listed. */
    final void listed() throws Exception {
        @SuppressWarnings("deprecation")
        var found = admin.listConsumerGroups().all().get();
        Check.that(found.stream().anyMatch(one -> one.groupId().equals(group)), found);
    }

    final void withoutGroup() throws Exception {
        admin.deleteConsumerGroups(List.of(group)).all().get();
    }

    final void withoutTopic() throws Exception {
        admin.deleteTopics(List.of(topic)).all().get();
    }
}
