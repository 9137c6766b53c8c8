//! Which addresses belong to the public internet (IANA's registries of special-purpose addresses).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address belongs to the public internet: not private, loopback, link-local, multicast, reserved, for documentation, nor
/// an IPv6 form that carries such an IPv4 address.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public_v4(v4),
            None => is_public_v6(v6),
        },
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || ip.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        // 6to4 relays, and anycast services of the network itself.
        || matches!([a, b, c], [192, 88, 99] | [192, 31, 196] | [192, 52, 193] | [192, 175, 48])
        || (a == 198 && (18..20).contains(&b));
    !special
}

/// Only what is handed out at present, 2000::/3, without its special parts.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.segments();
    let special = first == 0x2002
        || (first == 0x2001 && second < 0x200)
        || (first == 0x2001 && second == 0xdb8)
        || (first == 0x3fff && second < 0x1000);
    (first & 0xe000) == 0x2000 && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for public in
            ["93.184.215.14", "8.8.8.8", "192.88.98.1", "2606:2800:21f:cb07::1", "3fff:1000::1", "::ffff:8.8.8.8"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for private in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.3.4",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.0.8",
            "192.88.99.1",
            "192.31.196.1",
            "192.52.193.9",
            "192.175.48.1",
            "198.18.0.1",
            "203.0.113.5",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "2002:7f00:1::",
            "2001:db8::1",
            "3fff::1",
            "3fff:fff::1",
            "64:ff9b::7f00:1",
            "240.0.0.1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
    }
}
