//! How the broker's own client, which serves records over HTTP and learns where other brokers' partitions end, reaches
//! brokers. One that is alone it reaches inside the process, whatever its listeners ask of clients, and wherever the advertised
//! address leads. The brokers of a cluster it reaches at the listener that these have for each other.

use std::{io, sync::Arc};

use millrace_client::{
    BoxFuture, ClientConfig,
    security::{Scram, ScramMechanism},
    transport::{BrokerAddress, Connector, Transport},
};
use millrace_net::Server;
use millrace_security::{Principal, RECORDS_USER};

use crate::config::Endpoint;

/// Connects to the broker inside the process.
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
        Box::pin(async move {
            if *address != self.own {
                return Err(io::ErrorKind::AddrNotAvailable.into());
            }
            let stream = self.server.connect(&self.principal, &self.listener)?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }
}

/// The configuration of a client of a broker that is alone, as if it came to this listener.
pub(crate) fn alone(server: &Server, endpoint: &Endpoint) -> ClientConfig {
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

/// The configuration of a client of all brokers of the cluster. It signs in with the cluster's secret.
pub(crate) fn among_brokers(endpoint: &Endpoint, secret: &str) -> ClientConfig {
    let own = BrokerAddress::new(&endpoint.at.host, endpoint.at.port);
    let mut config = ClientConfig::with_addresses(vec![own]);
    let scram = Scram::new(ScramMechanism::Sha256, RECORDS_USER, secret);
    config.authenticate = Some(Arc::new(scram));
    config
}
