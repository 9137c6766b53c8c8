//! A network namespace in which a test runs itself. There, everything that is not loopback leaves through one interface whose counter is
//! read afterwards, name look-ups included.

use std::process::Command;

const INSIDE: &str = "CREDENCE_TEST_INSIDE";
/// An address that is routed to the watched interface.
pub const ELSEWHERE: &str = "10.9.9.9:80";

/// Runs a test of this program in a namespace, and gives back how many packets left it. `None` where namespaces are not allowed here;
/// with NAMESPACE_TESTS set they must be.
pub fn packets_of(test: &str) -> Option<u64> {
    let script = r#"
        set -e
        echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 || true
        ip link set lo up
        ip link add watched type veth peer name end
        ip link set end arp off up
        ip addr add 10.9.9.1/24 dev watched
        ip link set watched arp off up
        ip route add default dev watched
        "$0" --exact "$1" --nocapture >&2
        sed -n 's/^ *watched: *//p' /proc/net/dev | awk '{ print $10 }'
    "#;
    let myself = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["-rn", "sh", "-c", script]).arg(myself).arg(test).env(INSIDE, "1");
    let output = command.output();
    let output = match output {
        Ok(output) => output,
        Err(e) => return skipped(&e.to_string()),
    };
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        assert!(!errors.contains("running 1 test"), "the test failed inside: {errors}");
        return skipped(&errors);
    }
    assert!(errors.contains("1 passed"), "{errors}");
    Some(String::from_utf8_lossy(&output.stdout).trim().parse().unwrap())
}

fn skipped(why: &str) -> Option<u64> {
    assert!(std::env::var_os("NAMESPACE_TESTS").is_none(), "network namespaces are not allowed here: {why}");
    eprintln!("SKIPPED: network namespaces are not allowed here: {why}");
    None
}

/// Whether the test runs in the namespace.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}
