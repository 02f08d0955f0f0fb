//! How the broker's own client reaches the broker: at its listener, without the network between.
//!
//! Metadata names what the broker advertises, which may be a load balancer that does not lead back
//! to the machine that asks. Other brokers of the cluster are reached as they are advertised.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use millrace_client::{
    BoxFuture, ClientConfig,
    transport::{BrokerAddress, Connector, TcpConnector, Transport},
};

use crate::config::{BrokerConfig, Endpoint, Protection};

/// See the module.
#[derive(Debug)]
struct OwnListener {
    advertised: BrokerAddress,
    local: BrokerAddress,
}

impl Connector for OwnListener {
    fn connect<'a>(
        &'a self,
        address: &'a BrokerAddress,
    ) -> BoxFuture<'a, io::Result<Box<dyn Transport>>> {
        let is_own = *address == self.advertised;
        TcpConnector::connect(&TcpConnector, if is_own { &self.local } else { address })
    }
}

/// A client's configuration, for the first plaintext listener; nothing where there is none, because the
/// broker has no password of its own.
pub(crate) fn client_config(
    config: &BrokerConfig,
    addresses: &[(String, SocketAddr)],
    advertised: &[Endpoint],
) -> Option<ClientConfig> {
    let is_plaintext = |name: &str| {
        let protection = config.protections.get(name);
        protection.is_some_and(Protection::is_plaintext)
    };
    let mut addresses = addresses.iter();
    let (name, bound) = addresses.find(|(name, _)| is_plaintext(name))?;
    let endpoint = advertised.iter().find(|one| one.name == *name)?;
    let advertised = BrokerAddress::new(&endpoint.at.host, endpoint.at.port);
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let local = BrokerAddress::new(&ip.to_string(), bound.port());
    let mut config = ClientConfig::with_addresses(vec![advertised.clone()]);
    config.connector = Arc::new(OwnListener { advertised, local });
    Some(config)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::{Properties, config::HostPort};

    #[tokio::test]
    async fn what_the_broker_advertises_leads_to_its_own_listener() {
        let listener = TcpListener::bind("0.0.0.0:0").await.expect("a free port");
        let bound = listener.local_addr().expect("bound");
        let endpoint = Endpoint {
            name: "PLAINTEXT".to_owned(),
            at: HostPort {
                host: "balancer.invalid".to_owned(),
                port: 9_092,
            },
        };
        let properties = Properties::parse("").expect("legal");
        let broker = BrokerConfig::new(&properties).expect("defaults");
        let config = client_config(&broker, &[("PLAINTEXT".to_owned(), bound)], &[endpoint]);
        let config = config.expect("it listens");
        let own = config.bootstrap_servers.first().expect("one");
        assert_eq!(own.to_string(), "balancer.invalid:9092");
        assert!(config.connector.connect(own).await.is_ok());
        let other = BrokerAddress::new("other.invalid", 9_092);
        assert!(config.connector.connect(&other).await.is_err());
    }
}
