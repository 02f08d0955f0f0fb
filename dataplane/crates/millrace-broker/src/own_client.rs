//! How the broker's own client, which serves records over HTTP, reaches the broker: inside the process, whatever
//! its listeners ask of clients, and wherever the advertised address leads. It reaches the other brokers of the cluster as any
//! client does, without TLS and without signing in: where their listeners ask for either, the records of what they lead are not
//! served here.

use std::{io, sync::Arc};

use millrace_client::{
    BoxFuture, ClientConfig,
    transport::{BrokerAddress, Connector, TcpConnector, Transport},
};
use millrace_net::Server;
use millrace_security::Principal;

use crate::config::Endpoint;

/// Connects to this broker inside the process, and to others over the network.
struct OwnConnector {
    /// What Metadata says of this broker.
    own: BrokerAddress,
    server: Server,
    principal: Principal,
    /// The listener whose address Metadata tells the client.
    listener: String,
}

impl std::fmt::Debug for OwnConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OwnConnector").field(&self.listener).finish()
    }
}

impl Connector for OwnConnector {
    fn connect<'a>(
        &'a self,
        address: &'a BrokerAddress,
    ) -> BoxFuture<'a, io::Result<Box<dyn Transport>>> {
        if *address != self.own {
            return TcpConnector.connect(address);
        }
        Box::pin(async move {
            let stream = self.server.connect(&self.principal, &self.listener)?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }
}

/// A client's configuration, as if it came to this listener.
pub(crate) fn config(server: &Server, endpoint: &Endpoint) -> ClientConfig {
    let advertised = BrokerAddress::new(&endpoint.at.host, endpoint.at.port);
    let mut config = ClientConfig::with_addresses(vec![advertised.clone()]);
    config.connector = Arc::new(OwnConnector {
        own: advertised,
        server: server.clone(),
        principal: Principal::records(),
        listener: endpoint.name.clone(),
    });
    config
}
