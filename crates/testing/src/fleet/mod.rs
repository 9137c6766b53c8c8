//! A fleet of simulated agents whose behaviour is known, to measure what measures agents.
//!
//! Each agent is a small program with a shallow understanding of ordinary English ([`orders`]), a rule by which it decides what it
//! carries out ([`mind`], [`policy`]), and the habits of careful agents that it lacks ([`Weakness`]). It runs on a loopback port and
//! speaks one of five transports. It knows no probe: it has only what an agent has, the words it is sent.

mod a2a;
mod agent;
mod mind;
mod obedience;
mod openai;
pub mod orders;
mod outside;
mod plain;
pub mod policy;
mod roster;
pub mod text;
mod tool_server;
mod weakness;

use std::{net::SocketAddr, sync::Arc, thread};

use axum::Router;
use tokio::{net::TcpListener, runtime, sync::oneshot};

pub use a2a::Dialect;
pub use agent::{Agent, Fault};
pub use mind::{Message, Mind, Role, Scene, Step};
pub use outside::Outside;
pub use roster::{Character, Transport, fleet};
pub use tool_server::{Care, Trade};
pub use weakness::{Ability, Style, Weakness};

/// An agent that runs until this is dropped.
pub struct Running {
    /// Where it listens: `http://127.0.0.1:PORT`.
    pub origin: String,
    /// The agent.
    pub agent: Arc<Agent>,
    _server: Server,
}

impl Running {
    /// The address to give to a client of the agent's transport: the endpoint, or for A2A the origin of its card.
    pub fn endpoint(&self, transport: Transport) -> String {
        match transport {
            Transport::Chat => format!("{}/v1/chat/completions", self.origin),
            Transport::Responses => format!("{}/v1/responses", self.origin),
            Transport::A2a(_) => self.origin.clone(),
            Transport::Mcp(..) => format!("{}/mcp", self.origin),
            Transport::Http => format!("{}/ask", self.origin),
        }
    }
}

impl Character {
    /// Starts the agent on a free loopback port, in a thread of its own.
    pub fn start(&self) -> Running {
        let mind = Mind::new(self.style, &self.able, &self.weak);
        let agent = Arc::new(Agent::new(mind, &self.weak, self.fault));
        let (transport, served) = (self.transport, Arc::clone(&agent));
        let server = serve(move |origin| match transport {
            Transport::Chat | Transport::Responses => openai::routes(served),
            Transport::A2a(dialect) => a2a::routes(served, dialect, origin),
            Transport::Mcp(trade, care) => tool_server::routes(served, trade, care),
            Transport::Http => plain::routes(served),
        });
        Running { origin: server.origin.clone(), agent, _server: server }
    }
}

/// A server on a free loopback port, in a thread of its own, until this is dropped.
struct Server {
    origin: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // An agent that never answers would hold a graceful end back: the runtime is dropped with what is under way.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Serves what `routes` makes of the server's origin.
fn serve(routes: impl FnOnce(String) -> Router + Send + 'static) -> Server {
    let (stop, stopped) = oneshot::channel::<()>();
    let (told, address) = std::sync::mpsc::channel::<SocketAddr>();
    let thread = thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            told.send(address).unwrap();
            tokio::select! {
                served = axum::serve(listener, routes(format!("http://{address}"))) => served.unwrap(),
                _ = stopped => {}
            }
        });
    });
    let origin = format!("http://{}", address.recv().unwrap());
    Server { origin, stop: Some(stop), thread: Some(thread) }
}
