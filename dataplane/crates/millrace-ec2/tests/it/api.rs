//! The requests that reach EC2 and the metadata service, on a server that answers as they do.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
};

use millrace_ec2::{AttachmentState, Ec2, Ec2Endpoints, VolumeError, VolumeId, Volumes as _};

/// A request: its first line, its headers, its body.
#[derive(Debug, Clone, Default)]
struct Request {
    line: String,
    headers: String,
    body: String,
}

/// Answers as the metadata service and EC2 do, one request per connection.
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let request = read(&client);
                let (status, text) = answer(&request);
                seen.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(request);
                let length = text.len();
                let _ = write!(
                    &client,
                    "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
                );
            }
        });
        Self { address, requests }
    }

    fn last(&self) -> Request {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.last().cloned().unwrap_or_default()
    }
}

fn read(client: &TcpStream) -> Request {
    let mut reader = BufReader::new(client);
    let mut request = Request::default();
    let _ = reader.read_line(&mut request.line);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) <= 2 {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        request.headers.push_str(&line);
    }
    let _ = reader.take(length).read_to_string(&mut request.body);
    request
}

const IDENTITY: &str =
    r#"{"instanceId":"i-1","region":"eu-central-1","availabilityZone":"eu-central-1a"}"#;
const CREDENTIALS: &str = r#"{"AccessKeyId":"AKID","SecretAccessKey":"secret","Token":"session","Expiration":"2099-01-01T00:00:00Z"}"#;
const DESCRIBED: &str = "<DescribeVolumesResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><volumeSet><item>\
    <volumeId>vol-01234567</volumeId><availabilityZone>eu-central-1a</availabilityZone><status>in-use</status>\
    <attachmentSet><item><instanceId>i-2</instanceId><device>/dev/sdf</device><status>detaching</status></item>\
    </attachmentSet></item></volumeSet></DescribeVolumesResponse>";
const IN_USE: &str = "<Response><Errors><Error><Code>VolumeInUse</Code><Message>vol-01234567 is already attached to an \
    instance</Message></Error></Errors><RequestID>r</RequestID></Response>";

fn answer(request: &Request) -> (u16, &'static str) {
    let has_session = request.headers.contains("x-aws-ec2-metadata-token: t\r\n");
    let path = request.line.split(' ').nth(1).unwrap_or_default();
    match path {
        "/latest/api/token" if request.line.starts_with("PUT") => (200, "t"),
        _ if path.starts_with("/latest/") && !has_session => (401, ""),
        "/latest/dynamic/instance-identity/document" => (200, IDENTITY),
        "/latest/meta-data/placement/availability-zone-id" => (200, "euc1-az2"),
        "/latest/meta-data/iam/security-credentials/" => (200, "role"),
        "/latest/meta-data/iam/security-credentials/role" => (200, CREDENTIALS),
        "/" if request.body.contains("Action=DescribeVolumes") => (200, DESCRIBED),
        "/" if request.body.contains("Action=DetachVolume") => (200, "<DetachVolumeResponse/>"),
        "/" if request.body.contains("Action=AttachVolume") => (400, IN_USE),
        _ => (404, ""),
    }
}

#[tokio::test]
async fn requests_are_signed_with_the_role_of_the_instance() {
    let server = Server::start();
    let endpoints = Ec2Endpoints {
        ec2: Some(server.address.clone()),
        metadata: Some(server.address.clone()),
    };
    let opened = Ec2::of_this_instance(&endpoints).await;
    let (ec2, instance) = opened.expect("the metadata service answers");
    assert_eq!(
        (instance.id.0.as_str(), instance.zone.as_str()),
        ("i-1", "eu-central-1a")
    );
    assert!(instance.is_in("eu-central-1a") && instance.is_in("euc1-az2"));
    assert!(!instance.is_in("eu-central-1b"));

    let volume: VolumeId = "vol-01234567".parse().expect("legal");
    let found = ec2.describe(&volume).await.expect("answers");
    assert_eq!(found.attachments[0].state, AttachmentState::Detaching);
    let request = server.last();
    assert_eq!(
        request.body,
        "Action=DescribeVolumes&Version=2016-11-15&VolumeId.1=vol-01234567"
    );
    let signed = "authorization: aws4-hmac-sha256 credential=akid/";
    assert!(request.headers.contains(signed), "{}", request.headers);
    assert!(request.headers.contains("/eu-central-1/ec2/aws4_request"));
    assert!(request.headers.contains("x-amz-security-token: session"));

    ec2.detach(&volume, &instance.id, true)
        .await
        .expect("begins");
    assert!(
        server
            .last()
            .body
            .ends_with("VolumeId=vol-01234567&InstanceId=i-1&Force=true")
    );
    let refused = ec2.attach(&volume, &instance.id, "/dev/sdg").await;
    assert!(
        matches!(refused, Err(VolumeError::OtherState(_))),
        "{refused:?}"
    );
    assert!(
        server
            .last()
            .body
            .ends_with("InstanceId=i-1&Device=%2Fdev%2Fsdg")
    );
}

#[tokio::test]
async fn without_a_metadata_service_the_error_says_what_to_check() {
    let endpoints = Ec2Endpoints {
        ec2: None,
        // Nobody listens on the discard port.
        metadata: Some("http://127.0.0.1:9".to_owned()),
    };
    let error = Ec2::of_this_instance(&endpoints)
        .await
        .expect_err("no service");
    assert!(error.to_string().contains("hop limit"), "{error}");
}
