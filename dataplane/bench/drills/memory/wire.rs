//! Requests in versions of our choice, one after the other on a connection.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use bytes::{BufMut, Bytes, BytesMut};
use millrace_wire::{
    Decodable, Encodable, HeaderVersion, RequestMessage, StrBytes,
    messages::{RequestHeader, ResponseHeader},
};

/// No answer takes longer: a real client gives up after 30 s.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that asks and waits.
#[derive(Debug)]
pub(crate) struct Wire(TcpStream);

impl Wire {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(stream))
    }

    /// Sends all requests, then reads as many answers.
    pub(crate) fn call_all<R: RequestMessage>(
        &mut self,
        version: i16,
        requests: &[R],
    ) -> io::Result<Vec<R::Response>> {
        let mut bytes = BytesMut::new();
        for request in requests {
            encode(&mut bytes, version, request)?;
        }
        self.0.write_all(&bytes)?;
        requests.iter().map(|_| self.answer::<R>(version)).collect()
    }

    pub(crate) fn call<R: RequestMessage>(
        &mut self,
        version: i16,
        request: R,
    ) -> io::Result<R::Response> {
        let mut answers = self.call_all(version, &[request])?;
        answers.pop().ok_or_else(|| io::Error::other("no answer"))
    }

    /// Sends a request that is bytes already, and reads its answer without the length.
    pub(crate) fn exchange(&mut self, parts: &[&[u8]]) -> io::Result<Bytes> {
        for part in parts {
            self.0.write_all(part)?;
        }
        self.frame()
    }

    fn answer<R: RequestMessage>(&mut self, version: i16) -> io::Result<R::Response> {
        let mut frame = self.frame()?;
        let header_version = <R::Response as HeaderVersion>::header_version(version);
        ResponseHeader::decode(&mut frame, header_version).map_err(io::Error::other)?;
        R::Response::decode(&mut frame, version).map_err(io::Error::other)
    }

    fn frame(&mut self) -> io::Result<Bytes> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut frame)?;
        Ok(frame.into())
    }
}

fn encode<R: RequestMessage>(out: &mut BytesMut, version: i16, request: &R) -> io::Result<()> {
    let begin = out.len();
    out.put_i32(0);
    RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_client_id(Some(StrBytes::from_static_str("memory")))
        .encode(out, <R as HeaderVersion>::header_version(version))
        .and_then(|()| request.encode(out, version))
        .map_err(io::Error::other)?;
    let length = u32::try_from(out.len() - begin - 4).map_err(io::Error::other)?;
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
