//! As much of HTTP/1.1 as the proxy needs.

use std::io;

use tokio::{io::AsyncReadExt, net::TcpStream};

/// A longer head is no request of an S3 client.
const HEAD_BYTES_MAX: usize = 64 * 1024;

const END: &[u8] = b"\r\n\r\n";

/// The request line and the headers.
#[derive(Debug)]
pub(super) struct Head {
    lines: Vec<String>,
    content_length: u64,
}

/// Reads a request's head, and the bytes of its body that came along; `None` where the client hangs
/// up before it asks for anything.
pub(super) async fn read_head(client: &mut TcpStream) -> io::Result<Option<(Head, Vec<u8>)>> {
    let mut bytes = Vec::new();
    loop {
        let searched = bytes.len().saturating_sub(END.len());
        if client.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
        let found = bytes[searched..]
            .windows(END.len())
            .position(|at| at == END);
        if let Some(at) = found {
            let body = bytes.split_off(searched + at + END.len());
            bytes.truncate(searched + at);
            return Ok(Some((Head::parse(bytes)?, body)));
        }
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(malformed("a head without an end"));
        }
    }
}

impl Head {
    fn parse(bytes: Vec<u8>) -> io::Result<Self> {
        let text = String::from_utf8(bytes).map_err(|_| malformed("a head that is not text"))?;
        let lines: Vec<String> = text.split("\r\n").map(str::to_owned).collect();
        let mut content_length = 0;
        for line in &lines[1..] {
            let Some((name, value)) = line.split_once(':') else {
                return Err(malformed("a header without a colon"));
            };
            if name.eq_ignore_ascii_case("content-length") {
                content_length = value
                    .trim()
                    .parse()
                    .map_err(|_| malformed("a length that is no number"))?;
            }
            if name.eq_ignore_ascii_case("transfer-encoding") {
                return Err(malformed("a body without a length"));
            }
        }
        Ok(Self {
            lines,
            content_length,
        })
    }

    pub(super) fn content_length(&self) -> u64 {
        self.content_length
    }

    pub(super) fn is_head(&self) -> bool {
        self.lines[0].starts_with("HEAD ")
    }

    /// What is asked for, in S3's terms.
    pub(super) fn kind(&self) -> &'static str {
        let mut words = self.lines[0].split(' ');
        let method = words.next().unwrap_or_default();
        let target = words.next().unwrap_or_default();
        let copies = self.lines.iter().any(|line| {
            let name = line.split(':').next().unwrap_or_default();
            name.eq_ignore_ascii_case("x-amz-copy-source")
        });
        match (method, target) {
            ("PUT", _) if copies => "copy",
            ("PUT", target) if target.contains("partNumber=") => "put_part",
            ("PUT", _) => "put",
            ("POST", target) if target.contains("uploadId=") => "complete",
            ("POST", target) if target.contains("uploads") => "begin",
            ("POST", _) => "delete",
            ("DELETE", target) if target.contains("uploadId=") => "abort",
            ("DELETE", _) => "delete",
            ("HEAD", _) => "head",
            ("GET", target) if target.contains("list-type=") => "list",
            ("GET", _) => "get",
            _ => "other",
        }
    }

    /// The head as it goes to the server: the connection ends with the answer.
    pub(super) fn closing(&self) -> Vec<u8> {
        let stays = |line: &&String| {
            let name = line.split(':').next().unwrap_or_default();
            !name.eq_ignore_ascii_case("connection")
        };
        let mut head = String::new();
        for line in self.lines.iter().filter(stays) {
            head.push_str(line);
            head.push_str("\r\n");
        }
        head.push_str("connection: close\r\n\r\n");
        head.into_bytes()
    }
}

/// S3's answer to one who asks too much.
pub(super) fn slow_down(without_body: bool) -> Vec<u8> {
    let body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
                <Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
    let head = format!(
        "HTTP/1.1 503 Slow Down\r\ncontent-type: application/xml\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    let body = if without_body { "" } else { body };
    format!("{head}{body}").into_bytes()
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        Head::parse(text.replace('\n', "\r\n").into_bytes()).expect("legal")
    }

    #[test]
    fn requests_are_told_apart() {
        for (line, kind) in [
            ("PUT /b/k HTTP/1.1", "put"),
            ("PUT /b/k?partNumber=1&uploadId=x HTTP/1.1", "put_part"),
            ("POST /b/k?uploads= HTTP/1.1", "begin"),
            ("POST /b/k?uploadId=x HTTP/1.1", "complete"),
            ("DELETE /b/k?uploadId=x HTTP/1.1", "abort"),
            ("POST /b?delete HTTP/1.1", "delete"),
            ("HEAD /b/k HTTP/1.1", "head"),
            ("GET /b?list-type=2 HTTP/1.1", "list"),
            ("GET /b/k HTTP/1.1", "get"),
        ] {
            assert_eq!(head(line).kind(), kind, "{line}");
        }
    }

    #[test]
    fn a_part_that_is_copied_is_told_from_one_that_is_sent() {
        let part = "PUT /b/k?partNumber=1&uploadId=x HTTP/1.1";
        assert_eq!(
            head(&format!("{part}\nX-Amz-Copy-Source: /b/o")).kind(),
            "copy"
        );
        assert_eq!(head(&format!("{part}\nHost: h")).kind(), "put_part");
    }

    #[test]
    fn only_the_connection_header_is_changed() {
        let head = head("PUT /k HTTP/1.1\nHost: h:1\nConnection: keep-alive\nContent-Length: 12");
        assert_eq!(head.content_length(), 12);
        let closing = String::from_utf8(head.closing()).expect("text");
        assert_eq!(
            closing,
            "PUT /k HTTP/1.1\r\nHost: h:1\r\nContent-Length: 12\r\nconnection: close\r\n\r\n"
        );
    }
}
