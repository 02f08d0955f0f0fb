//! What the control plane reads.

use kafka_protocol::messages::{ApiVersionsRequest, FetchRequest};
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::{
    calls::{NAMED_FETCH, batch, fetch_request},
    world::{Sent, World, answer},
};

#[tokio::test]
async fn requests_and_topics_are_measured() {
    let recorder = PrometheusBuilder::new()
        .set_buckets(&[0.05, 60.0])
        .expect("buckets");
    let recorder = recorder.build_recorder();
    let shown = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    world.produce("t", 0, batch(&["x", "y"])).await;
    world.produce("none", 0, batch(&["x"])).await;
    let fetched = world.fetch_from("t", 0, 0).await;
    let bytes = fetched.records.expect("records").len();
    // Waits for 100 ms and finds nothing.
    let waiting = fetch_request("t", &[(0, 2)]).with_max_wait_ms(100);
    world.ask(NAMED_FETCH, &waiting).await;
    world.ask(0, &ApiVersionsRequest::default()).await;
    let Sent::Closed(_) = world.send_frame(b"nonsense"[..].into()).await else {
        panic!("closed")
    };

    let text = shown.render();
    for line in [
        r#"millrace_requests_total{api="Produce",error="NONE"} 1"#,
        r#"millrace_requests_total{api="Produce",error="UNKNOWN_TOPIC_OR_PARTITION"} 1"#,
        r#"millrace_requests_total{api="Fetch",error="NONE"} 2"#,
        r#"millrace_requests_total{api="ApiVersions",error="NONE"} 1"#,
        r#"millrace_requests_total{api="unknown",error="INVALID_REQUEST"} 1"#,
        r#"millrace_topic_records_in_total{topic="t"} 2"#,
        &format!(r#"millrace_topic_bytes_out_total{{topic="t"}} {bytes}"#),
        // The wait is part of the request's time, not of what the service took.
        r#"millrace_request_seconds_bucket{api="Fetch",le="0.05"} 1"#,
        r#"millrace_request_service_seconds_bucket{api="Fetch",le="0.05"} 2"#,
    ] {
        assert!(
            text.lines().any(|shown| shown == line),
            "{line} is not in\n{text}"
        );
    }
}

#[tokio::test]
async fn a_fetch_that_nobody_awaits_any_more_is_forgotten() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let request = fetch_request("t", &[(0, 0)]).with_max_wait_ms(30_000);
    let Sent::Later(fetch) = world.send(NAMED_FETCH, &request).await else {
        panic!("nothing yet")
    };
    let fetch = tokio::spawn(answer::<FetchRequest>(NAMED_FETCH, Sent::Later(fetch)));
    while world.service.delayed_fetches() == 0 {
        tokio::task::yield_now().await;
    }
    // The client disconnects.
    fetch.abort();
    assert!(fetch.await.is_err());
    assert_eq!(world.service.delayed_fetches(), 0);
}
