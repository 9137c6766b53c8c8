//! Starts the simulated agents and prints where each one listens, until standard input ends: something to try `credence probe` on.

use std::io::Read;

use credence_testing::fleet::fleet;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let chosen = fleet().into_iter().filter(|agent| wanted.is_empty() || wanted.iter().any(|name| name == agent.name));
    let running: Vec<_> = chosen.map(|agent| (agent.start(), agent)).collect();
    for (server, agent) in &running {
        let vulnerable: Vec<String> = agent.vulnerable.iter().map(|threat| format!("ASI{threat:02}")).collect();
        println!(
            "{}\t{:?}\t{}\t{}",
            agent.name,
            agent.transport,
            server.endpoint(agent.transport),
            vulnerable.join(" ")
        );
    }
    // The end of standard input is the signal to stop; what it holds does not matter.
    let mut rest = Vec::new();
    drop(std::io::stdin().read_to_end(&mut rest));
}
