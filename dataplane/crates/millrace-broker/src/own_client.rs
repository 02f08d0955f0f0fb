//! How the broker's own client, which serves records over HTTP, reaches the broker: inside the process, whatever
//! its listeners ask of clients, and wherever the advertised address leads.

use std::{io, sync::Arc};

use millrace_client::{
    BoxFuture, ClientConfig,
    transport::{BrokerAddress, Connector, Transport},
};
use millrace_net::Server;
use millrace_security::Principal;

use crate::config::Endpoint;

/// Connects to this broker. A cluster has no other while brokers do not share their metadata.
struct OwnConnector {
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
        _address: &'a BrokerAddress,
    ) -> BoxFuture<'a, io::Result<Box<dyn Transport>>> {
        Box::pin(async move {
            let stream = self.server.connect(&self.principal, &self.listener)?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }
}

/// A client's configuration, as if it came to this listener.
pub(crate) fn config(server: &Server, endpoint: &Endpoint) -> ClientConfig {
    let advertised = BrokerAddress::new(&endpoint.at.host, endpoint.at.port);
    let mut config = ClientConfig::with_addresses(vec![advertised]);
    config.connector = Arc::new(OwnConnector {
        server: server.clone(),
        principal: Principal::records(),
        listener: endpoint.name.clone(),
    });
    config
}
