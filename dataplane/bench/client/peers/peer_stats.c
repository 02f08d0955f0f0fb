/* librdkafka's statistics, a JSON text of which a few numbers are wanted. */
#include "peer.h"
#include <stdlib.h>
#include <string.h>

/* The sum of all numbers that stand behind `key`, which has its quotes and its colon. */
static double sum_of(const char *json, const char *key) {
  double sum = 0;
  for (const char *at = json; (at = strstr(at, key)); at += strlen(key)) sum += atof(at + strlen(key));
  return sum;
}

/* The number behind `key` in the object that begins at `at`. */
static double number_in(const char *at, const char *key) {
  const char *found = strstr(at, key);
  return found ? atof(found + strlen(key)) : 0;
}

static int take(rd_kafka_t *client, char *json, size_t length, void *opaque) {
  (void)client;
  (void)length;
  struct stats *stats = opaque;
  stats->produce_requests = (long)sum_of(json, "\"Produce\":");
  stats->fetch_requests = (long)sum_of(json, "\"Fetch\":");
  stats->received_bytes = (long)sum_of(json, "\"rx_bytes\":");
  /* A window that begins again with each statistics. */
  for (const char *at = json; (at = strstr(at, "\"batchcnt\":")); at++) {
    stats->batches += number_in(at, "\"cnt\":");
    stats->batched_records += number_in(at, "\"sum\":");
  }
  return 0;
}

void keep_stats(rd_kafka_conf_t *conf, struct stats *stats) {
  set(conf, "statistics.interval.ms", "1000");
  rd_kafka_conf_set_opaque(conf, stats);
  rd_kafka_conf_set_stats_cb(conf, take);
}
