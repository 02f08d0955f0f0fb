//! Which addresses count as one client.

use std::net::{IpAddr, Ipv6Addr};

/// What is counted together in bounds per address: an IPv4 address is itself, and of an IPv6 address only the
/// network of 64 bits counts, because a host has all addresses of its network.
#[must_use]
pub fn address_block(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> HOST_BITS << HOST_BITS;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        v4 => v4,
    }
}

const HOST_BITS: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_many_addresses_is_one_client() {
        for (address, block) in [
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:3::1", "2001:db8:1:3::"),
        ] {
            let parsed: IpAddr = address.parse().expect("an address");
            assert_eq!(address_block(parsed).to_string(), block);
        }
    }
}
