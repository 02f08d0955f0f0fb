/* KAFKA-7548: all partitions but one, chosen at random, are paused before each poll for one record.
 * A partition that is read to its end is read again. */
#include "peer.h"
#include <stdio.h>
#include <stdlib.h>

enum { PARTITIONS_MAX = 1000, POLL_MS = 100, SEED = 7548, SEEK_MS = 10000 };

static rd_kafka_topic_partition_list_t *list_of(const char *topic, int from, int to, int except) {
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(to - from);
  for (int index = from; index < to; index++)
    if (index != except)
      rd_kafka_topic_partition_list_add(list, topic, index)->offset = RD_KAFKA_OFFSET_BEGINNING;
  return list;
}

void flow(char **arguments) {
  const char *topic = arguments[1];
  int partitions = atoi(arguments[2]);
  double seconds = atof(arguments[3]);
  long last = atol(arguments[4]) - 1, count = 0, bytes = 0, polls = 0;
  static rd_kafka_topic_partition_list_t *one[PARTITIONS_MAX], *others[PARTITIONS_MAX];
  static struct stats stats;
  char why[256];
  if (partitions < 1 || partitions > PARTITIONS_MAX) fail("flow", "too many partitions");
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  set(conf, "bootstrap.servers", arguments[0]);
  set(conf, "group.id", "bench-client-librdkafka");
  set(conf, "enable.auto.commit", "false");
  set(conf, "auto.offset.reset", "earliest");
  keep_stats(conf, &stats);
  rd_kafka_t *client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
  if (!client) fail("consumer", why);
  rd_kafka_poll_set_consumer(client);
  for (int index = 0; index < partitions; index++) {
    one[index] = list_of(topic, index, index + 1, -1);
    others[index] = list_of(topic, 0, partitions, index);
  }
  rd_kafka_topic_partition_list_t *all = list_of(topic, 0, partitions, -1);
  rd_kafka_resp_err_t error = rd_kafka_assign(client, all);
  if (error) fail("assign", rd_kafka_err2str(error));
  unsigned seed = SEED;
  double begin = now();
  while (now() - begin < seconds) {
    int chosen = rand_r(&seed) % partitions;
    rd_kafka_pause_partitions(client, others[chosen]);
    rd_kafka_resume_partitions(client, one[chosen]);
    polls++;
    rd_kafka_message_t *message = rd_kafka_consumer_poll(client, POLL_MS);
    if (!message) continue;
    if (!message->err) {
      count++;
      bytes += (long)message->len;
      if (message->offset == last) {
        one[chosen]->elems[0].offset = 0;
        rd_kafka_error_t *refused = rd_kafka_seek_partitions(client, one[chosen], SEEK_MS);
        if (refused) fail("seek", rd_kafka_error_string(refused));
      }
    }
    rd_kafka_message_destroy(message);
  }
  double elapsed = now() - begin;
  /* The last statistics; nothing is fetched meanwhile. */
  rd_kafka_pause_partitions(client, all);
  for (double end = now() + STATS_MS * 1.2 / 1e3; now() < end;) {
    rd_kafka_message_t *message = rd_kafka_consumer_poll(client, POLL_MS);
    if (message) rd_kafka_message_destroy(message);
  }
  printf("{\"records\":%ld,\"bytes\":%ld,\"polls\":%ld,\"seconds\":%f,\"fetch_requests\":%ld,\"received_bytes\":%ld}\n",
         count, bytes, polls, elapsed, stats.fetch_requests, stats.received_bytes);
  for (int index = 0; index < partitions; index++) {
    rd_kafka_topic_partition_list_destroy(one[index]);
    rd_kafka_topic_partition_list_destroy(others[index]);
  }
  rd_kafka_topic_partition_list_destroy(all);
  rd_kafka_consumer_close(client);
  rd_kafka_destroy(client);
}
