//! `control.link.*`: the gateway of the control plane that the broker dials.

use std::path::PathBuf;

use super::{HostPort, absolute, reader::Reader};

const ADDRESS: &str = "control.link.address";
const CREDENTIAL: &str = "control.link.credential.file";
const CA: &str = "control.link.ca.file";

/// The control link: the broker dials a gateway, which then calls the broker's admin HTTP on that connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlLinkConfig {
    /// `control.link.address`: the gateway. Its certificate must be for this host.
    pub address: HostPort,
    /// `control.link.credential.file`: what the broker shows the gateway.
    pub credential_file: PathBuf,
    /// `control.link.ca.file`: PEM roots of the gateway's certificate; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// `cluster.id`, which the broker names to the gateway.
    pub cluster_id: String,
}

/// `None` where no address is set, or where something is wrong, which the reader then knows.
pub(super) fn read_control_link(
    r: &mut Reader<'_>,
    cluster_id: Option<&str>,
) -> Option<ControlLinkConfig> {
    let address = r.optional(ADDRESS);
    let credential = r.optional(CREDENTIAL);
    let ca = r.optional(CA);
    let Some(address) = address else {
        if credential.or(ca).is_some() {
            let problem = "the control link has no gateway to dial";
            let remedy =
                "set it to the gateway's host:port, or remove the other control.link settings";
            r.fail(ADDRESS, problem, remedy);
        }
        return None;
    };
    let address = read_address(r, &address);
    let Some(credential) = credential else {
        let problem = "the gateway admits no broker without a credential";
        let remedy =
            "name the file with the credential that the control plane issued for this broker";
        r.fail(CREDENTIAL, problem, remedy);
        return None;
    };
    let Some(cluster_id) = cluster_id.filter(|id| is_header_value(id)) else {
        let problem = "the gateway has to be told the cluster of this broker, in visible ASCII";
        let remedy = "set it to the id that the cluster has in the control plane, or remove control.link.address";
        r.fail("cluster.id", problem, remedy);
        return None;
    };
    Some(ControlLinkConfig {
        address: address?,
        credential_file: absolute(&credential),
        ca_file: ca.map(|path| absolute(&path)),
        cluster_id: cluster_id.to_owned(),
    })
}

fn read_address(r: &mut Reader<'_>, text: &str) -> Option<HostPort> {
    let problem = match text.parse::<HostPort>() {
        Ok(address) if !address.is_wildcard() && address.port > 0 => return Some(address),
        Ok(_) => format!("{text:?} is no address that can be dialled"),
        Err(error) => error.to_string(),
    };
    let remedy = "write the gateway's host:port, such as gateway.example.com:443";
    r.fail(ADDRESS, problem, remedy);
    None
}

fn is_header_value(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}
