//! From a name to addresses that may be asked.

use std::{
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::{EgressError, is_public};

/// Where a name leads: the machine's resolver, or one that a test or an operator puts in its place. Whatever it says is checked.
pub trait Names: Send + Sync {
    /// The addresses of `host`, with `port`.
    fn addresses(&self, host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>>;
}

/// The machine's own resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn addresses(&self, host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
        (host, port).to_socket_addrs().map(Iterator::collect)
    }
}

/// How long a name server may take.
const RESOLUTION: Duration = Duration::from_secs(5);

/// A host and its checked addresses: what was resolved once, to be used for as long as one piece of work lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The host as the URL names it.
    pub host: String,
    /// All addresses of the host, with the URL's port. All of them are public, or all are loopback.
    pub addresses: Vec<SocketAddr>,
}

impl Destination {
    /// Resolves the host of `url` and checks every address.
    ///
    /// `hold` travels with the thread that waits for the name server and comes back with the answer: a place in a queue, say, that is
    /// taken until that thread is free, also where nobody waits for it any longer.
    pub async fn resolve<H: Send + 'static>(url: &Url, loopback: bool, hold: H) -> Result<(Self, H), EgressError> {
        Self::resolve_by(Arc::new(SystemNames), url, loopback, hold).await
    }

    /// The same by other names than the machine's.
    pub(crate) async fn resolve_by<H: Send + 'static>(
        names: Arc<dyn Names>,
        url: &Url,
        loopback: bool,
        hold: H,
    ) -> Result<(Self, H), EgressError> {
        let host = url.host_str().ok_or_else(|| EgressError::InvalidUrl(url.to_string()))?.to_owned();
        let port = url.port_or_known_default().unwrap_or(443);
        let (addresses, hold) = match literal(url) {
            Some(ip) => (vec![SocketAddr::new(ip, port)], hold),
            None => look_up(names, host.clone(), port, hold).await?,
        };
        check(&host, &addresses, loopback)?;
        Ok((Self { host, addresses }, hold))
    }

    /// Whether the host is this machine.
    pub fn is_loopback(&self) -> bool {
        self.addresses.iter().all(|address| address.ip().is_loopback())
    }
}

/// The address in a URL that names no host by name. The resolver below is not asked about these.
pub(crate) fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(ip) => Some(ip.into()),
        Host::Ipv6(ip) => Some(ip.into()),
        Host::Domain(_) => None,
    }
}

/// Fails unless all addresses are public, or all are loopback and that is allowed. One bad address among good ones is refused too:
/// which one a connection would take is the name server's choice.
pub(crate) fn check(host: &str, addresses: &[SocketAddr], loopback: bool) -> Result<(), EgressError> {
    if addresses.is_empty() {
        return Err(EgressError::Unresolved { host: host.to_owned(), why: "it has no address".to_owned() });
    }
    if loopback && addresses.iter().all(|address| address.ip().is_loopback()) {
        return Ok(());
    }
    match addresses.iter().find(|address| !is_public(address.ip())) {
        Some(address) => Err(EgressError::NotPublic { host: host.to_owned(), address: address.ip() }),
        None => Ok(()),
    }
}

async fn look_up<H: Send + 'static>(
    names: Arc<dyn Names>,
    host: String,
    port: u16,
    hold: H,
) -> Result<(Vec<SocketAddr>, H), EgressError> {
    let unresolved = |why: &str| EgressError::Unresolved { host: host.clone(), why: why.to_owned() };
    let asked = host.clone();
    let thread = tokio::task::spawn_blocking(move || (names.addresses(&asked, port), hold));
    let (found, hold) = tokio::time::timeout(RESOLUTION, thread)
        .await
        .map_err(|_| unresolved("the name server took too long"))?
        .map_err(|_| unresolved("the look-up was interrupted"))?;
    let found = found.map_err(|_| unresolved("there is no such name, or no name server"))?;
    Ok((found, hold))
}

/// The resolver of an [`Egress`](crate::Egress): gives connections checked addresses only, and of one host always the same where that
/// was asked for.
pub(crate) struct CheckedResolver {
    pub loopback: bool,
    pub pinned: Option<Arc<Destination>>,
    pub names: Arc<dyn Names>,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (loopback, pinned, names) = (self.loopback, self.pinned.clone(), Arc::clone(&self.names));
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let addresses = match pinned {
                Some(destination) if destination.host.eq_ignore_ascii_case(&host) => destination.addresses.clone(),
                Some(destination) => {
                    return Err(EgressError::OtherHost { host, only: destination.host.clone() }.into());
                }
                // Port 0: the connection takes the URL's.
                None => look_up(names, host.clone(), 0, ()).await?.0,
            };
            check(&host, &addresses, loopback)?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 443)).collect()
    }

    #[test]
    fn one_private_address_among_public_ones_is_enough() {
        assert!(check("a.example", &at(&["8.8.8.8", "9.9.9.9"]), false).is_ok());
        for bad in ["127.0.0.1", "10.0.0.1", "::1", "169.254.169.254"] {
            let found = check("a.example", &at(&["8.8.8.8", bad]), true);
            assert_eq!(
                found,
                Err(EgressError::NotPublic { host: "a.example".into(), address: bad.parse().unwrap() }),
                "{bad}"
            );
        }
        assert!(check("a.example", &[], true).is_err());
    }

    #[test]
    fn loopback_needs_permission_and_opens_nothing_else() {
        assert!(check("localhost", &at(&["127.0.0.1", "::1"]), true).is_ok());
        assert!(check("localhost", &at(&["127.0.0.1"]), false).is_err());
        assert!(check("printer", &at(&["192.168.0.7"]), true).is_err());
    }
}
