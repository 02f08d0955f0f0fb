use super::*;

/// A server that answers each request with how many bytes its body had.
async fn counting_server() -> (SocketAddr, Arc<Mutex<Vec<u64>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let carried_out: Arc<Mutex<Vec<u64>>> = Arc::default();
    let log = Arc::clone(&carried_out);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let Ok(Some((head, body))) = read_head(&mut client).await else {
                continue;
            };
            drain(&mut client, &head, &body).await.expect("the body");
            log.lock().push(head.content_length());
            let text = head.content_length().to_string();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}",
                text.len()
            );
            client.write_all(answer.as_bytes()).await.expect("answered");
        }
    });
    (address, carried_out)
}

/// Everything that the proxy answers to a PUT of `bytes`.
async fn put(proxy: &Proxy, bytes: usize) -> String {
    let mut client = TcpStream::connect(proxy.address()).await.expect("there");
    let head = format!("PUT /b/k HTTP/1.1\r\nhost: x\r\ncontent-length: {bytes}\r\n\r\n");
    client.write_all(head.as_bytes()).await.expect("sent");
    // It may be cut off on the way.
    let _ = client.write_all(&vec![7; bytes]).await;
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer).await;
    String::from_utf8(answer).expect("text")
}

#[tokio::test]
async fn each_fault_is_what_it_says() {
    let (server, carried_out) = counting_server().await;
    let proxy = Proxy::start(server, 1).await.expect("starts");
    let all = Faults::default();

    assert!(put(&proxy, 300_000).await.ends_with("\r\n300000"));
    proxy.set(Faults {
        slow_down_permille: 1_000,
        ..all
    });
    let refused = put(&proxy, 300_001).await;
    assert!(
        refused.starts_with("HTTP/1.1 503") && refused.contains("SlowDown"),
        "{refused}"
    );
    proxy.set(Faults {
        lost_reply_permille: 1_000,
        ..all
    });
    assert_eq!(put(&proxy, 300_002).await, "");
    proxy.set(Faults {
        slow_body_permille: 1_000,
        ..all
    });
    assert!(put(&proxy, 300_003).await.ends_with("\r\n300003"));
    assert_eq!(*carried_out.lock(), [300_000, 300_002, 300_003]);
    let counts = proxy.counts();
    for outcome in ["passed", "slow_down", "lost_reply", "slow_body"] {
        assert_eq!(counts.of(outcome), 1, "{outcome}");
    }
    assert_eq!(counts.requests("put"), 4);
}

#[tokio::test]
async fn a_silent_proxy_answers_nobody_until_the_silence_ends() {
    let (server, carried_out) = counting_server().await;
    let proxy = Proxy::start(server, 1).await.expect("starts");
    proxy.set(Faults {
        silent: true,
        ..Faults::default()
    });
    let puts: Vec<_> = (0..20).map(|_| put(&proxy, 1_000)).collect();
    let ended = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        proxy.set(Faults::default());
    };
    let (answers, ()) = tokio::join!(futures_util::future::join_all(puts), ended);
    assert!(answers.iter().all(String::is_empty), "{answers:?}");
    let counts = proxy.counts();
    assert!(counts.of("unanswered") > 0 && counts.of("cut_off") > 0);
    assert!(carried_out.lock().is_empty());
    assert!(put(&proxy, 5).await.ends_with("\r\n5"));
}

#[tokio::test]
async fn a_trap_holds_requests_before_or_after_they_are_carried_out_and_lets_them_go() {
    let (server, carried_out) = counting_server().await;
    let proxy = Proxy::start(server, 1).await.expect("starts");
    for (after, seen) in [(false, 0), (true, 2)] {
        let mut catch = proxy.trap(&["put"], after);
        assert!(catch.take().is_none());
        let caught = async {
            loop {
                match catch.take() {
                    Some(caught) => break caught,
                    None => tokio::time::sleep(Duration::from_millis(1)).await,
                }
            }
        };
        let held = async {
            let caught = caught.await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(caught.kind, "put");
            assert_eq!(carried_out.lock().len(), seen, "carried out: {after}");
            drop(caught);
        };
        let (answer, ()) = tokio::join!(put(&proxy, 7), held);
        assert!(answer.ends_with("\r\n7"), "{answer}");
        drop(catch);
    }
    // The trap is gone.
    assert!(put(&proxy, 8).await.ends_with("\r\n8"));
}
