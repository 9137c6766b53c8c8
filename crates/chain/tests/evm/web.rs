//! Registration files and the domains that they name.

use std::sync::{Arc, Mutex};

use axum::{Json, Router, http::StatusCode, response::IntoResponse, routing::get};
use credence_chain::reading::{Note, Reading};
use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::{
    reading::signal,
    world::{World, local, now},
};

const KIND: &str = "https://eips.ethereum.org/EIPS/eip-8004#registration-v1";

/// A host with a registration file and a well-known file.
struct Site {
    origin: String,
    file: Arc<Mutex<Value>>,
    well_known: Arc<Mutex<Option<Value>>>,
}

impl Site {
    async fn start() -> Self {
        let (file, well_known) = (Arc::new(Mutex::new(Value::Null)), Arc::new(Mutex::new(None::<Value>)));
        let (served, known) = (Arc::clone(&file), Arc::clone(&well_known));
        let agent = move || async move { Json(served.lock().unwrap().clone()) };
        let back = move || async move {
            match known.lock().unwrap().clone() {
                Some(value) => Json(value).into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            }
        };
        let router = Router::new()
            .route("/agent.json", get(agent.clone()))
            .route("/ipfs/bafyone", get(agent))
            .route("/.well-known/agent-registration.json", get(back));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { origin, file, well_known }
    }
}

async fn read(world: &World, agent: u64, hosts: &(dyn Fn(&str) -> bool + Send + Sync)) -> Reading {
    let reader = world.reader();
    let head = reader.head(now()).await.unwrap();
    reader.read(&world.subject(agent), head, None, hosts).await.unwrap()
}

fn identity(reading: &Reading) -> Option<f64> {
    reading.signals.iter().find(|signal| signal.tag.as_str() == "identity_onchain").map(|signal| signal.value)
}

#[tokio::test]
async fn registration_file_and_domain_name_each_other() {
    let Some(mut world) = World::start() else { return };
    let site = Site::start().await;
    world.chain.ipfs_gateway = Some(site.origin.parse().unwrap());
    let registry = format!("eip155:31337:{:#x}", world.chain.identity);
    let back = |agent: u64| json!([{"agentId": agent, "agentRegistry": registry}]);
    let file = |registrations: Value| {
        let endpoint = format!("{}/mcp", site.origin);
        json!({"type": KIND, "name": "Weather", "services": [{"name": "MCP", "endpoint": endpoint}], "registrations": registrations})
    };
    let inline = format!("data:application/json;base64,{}", BASE64.encode(file(back(2)).to_string().as_bytes()));
    for uri in [&format!("{}/agent.json", site.origin), "ipfs://bafyone", &inline, "ipfs://../agent.json"] {
        world.register(0, uri);
    }
    world.settle();
    *site.file.lock().unwrap() = file(back(0));
    *site.well_known.lock().unwrap() = Some(json!({"registrations": back(0)}));

    let reading = read(&world, 0, &local).await;
    assert_eq!(signal(&reading, "identity_onchain").value, 100.0);
    let registration = reading.registration.clone().unwrap();
    assert_eq!(registration.endpoints.iter().collect::<Vec<_>>(), [&site.origin]);
    assert_eq!(registration.points_to.iter().collect::<Vec<_>>(), [&format!("{registry}/0")]);
    let name = registration.name_digest.clone();
    assert!(name.as_ref().is_some_and(|digest| digest.len() == 64));
    let domain = |reading: &Reading| {
        let domains = reading.registration.as_ref().unwrap().domains.clone();
        assert_eq!(domains.keys().collect::<Vec<_>>(), [&site.origin]);
        domains[&site.origin].clone()
    };
    // The domain's file lists registrations and nothing else; then it is a whole registration file.
    let said = domain(&read(&world, 0, &local).await).unwrap();
    assert_eq!((said.name_digest, said.endpoints.len()), (None, 0));
    assert_eq!(said.points_to.iter().collect::<Vec<_>>(), [&format!("{registry}/0")]);
    *site.well_known.lock().unwrap() = Some(file(back(0)));
    let said = domain(&read(&world, 0, &local).await).unwrap();
    assert_eq!((&said.name_digest, said.endpoints.len()), (&name, 1));
    let mut elsewhere = file(back(0));
    elsewhere["services"][0]["endpoint"] = json!("https://victim.example/mcp");
    *site.well_known.lock().unwrap() = Some(elsewhere);
    let said = domain(&read(&world, 0, &local).await).unwrap();
    assert_eq!(
        (&said.name_digest, said.endpoints.len(), said.points_to.len()),
        (&None, 0, 1),
        "of a file that names another domain"
    );
    *site.well_known.lock().unwrap() = Some(json!({"registrations": back(0)}));

    // The file of agent 1 names agent 0, and so does the domain.
    assert_eq!(identity(&read(&world, 1, &local).await), Some(100.0 / 3.0));
    // The file of agent 2 names itself, the domain does not.
    assert_eq!(identity(&read(&world, 2, &local).await), Some(200.0 / 3.0));
    *site.well_known.lock().unwrap() = None;
    let without = read(&world, 0, &local).await;
    assert_eq!((identity(&without), domain(&without)), (Some(200.0 / 3.0), None), "the domain has no file");
    let odd = read(&world, 3, &local).await;
    assert!(odd.notes.contains(&Note::UriNotSupported) && identity(&odd).is_none(), "{odd:?}");
}

#[tokio::test]
async fn files_that_name_another_domain_are_refused() {
    let Some(world) = World::start() else { return };
    let site = Site::start().await;
    world.register(0, &format!("{}/agent.json", site.origin));
    world.register(0, "https://10.0.0.1/agent.json");
    world.register(0, &format!("{}/missing.json", site.origin));
    world.settle();
    let services =
        |endpoint: &str| json!({"type": KIND, "name": "W", "services": [{"name": "MCP", "endpoint": endpoint}]});

    *site.file.lock().unwrap() = services("https://victim.example/mcp");
    let reading = read(&world, 0, &local).await;
    assert!(reading.notes.contains(&Note::NamesAnotherDomain), "{:?}", reading.notes);
    assert_eq!(identity(&reading), None);
    let registration = reading.registration.unwrap();
    assert!(registration.endpoints.is_empty() && registration.name_digest.is_none(), "nothing of the file is taken");

    let nobody = read(&world, 0, &|_: &str| false).await;
    assert!(nobody.notes.contains(&Note::UriHostNotProven) && identity(&nobody).is_none(), "{nobody:?}");
    // Whatever the caller believes: a private address is not asked.
    let private = read(&world, 1, &|_: &str| true).await;
    assert!(private.notes.contains(&Note::FileUnreachable) && identity(&private).is_none(), "{private:?}");
    let missing = read(&world, 2, &local).await;
    assert!(missing.notes.contains(&Note::FileUnreachable) && identity(&missing).is_none(), "missing is not zero");
    *site.file.lock().unwrap() = json!({"type": "https://other.example"});
    assert!(read(&world, 0, &local).await.notes.contains(&Note::NotARegistration));
    // A domain that does not answer measures nothing.
    *site.file.lock().unwrap() = services("http://127.0.0.1:1/mcp");
    let silent = read(&world, 0, &local).await;
    assert!(silent.notes.contains(&Note::DomainUnreachable) && identity(&silent).is_none(), "{silent:?}");
}
