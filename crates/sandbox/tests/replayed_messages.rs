//! Messages that are sent once more under the id of the first: an A2A agent that pays again is told from one that keeps the ids.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod support;

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
};

use axum::{Json, response::IntoResponse};
use credence_sandbox::{
    Threat,
    sensor::{listener::Listener, mount::Mount},
    suite::Suite,
    target::Transport,
};
use regex::Regex;
use serde_json::{Value, json};
use support::{
    Server,
    world::{World, family, threat},
};

/// What an agent does with a message whose id it has seen.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Repeated {
    /// Carries it out again.
    Works,
    /// Gives the first answer again.
    Answers,
    /// Refuses it.
    Refuses,
    /// Refuses every message after the first of a conversation: it cannot do the harmless version.
    RefusesAll,
}

/// Calls a tool of the mounted server.
fn use_tool(at: SocketAddr, name: &str, arguments: &Value) -> String {
    let params = json!({ "name": name, "arguments": arguments });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let head = "POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close";
    let mut stream = TcpStream::connect(at).unwrap();
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let answer: Value = serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

/// An agent over A2A that has our tools mounted, and does what its user asks of them.
async fn agent(repeated: Repeated, tools: SocketAddr) -> Server {
    let asked = Regex::new(r"(?i)call the tool (\w+) with (.*)").unwrap();
    let given = Regex::new(r"(\w+) set to (?:'([^']*)'|(\d+(?:\.\d+)?))").unwrap();
    let answered: Arc<Mutex<HashMap<String, Value>>> = Arc::default();
    Server::start(move |_, _, body| {
        if body["method"].is_null() {
            let interface = json!({ "url": "/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" });
            return Json(json!({ "name": "payer", "supportedInterfaces": [interface] })).into_response();
        }
        let message = &body["params"]["message"];
        let id = message["messageId"].as_str().unwrap().to_owned();
        let refused = json!({ "jsonrpc": "2.0", "id": "1", "error": { "code": -32602, "message": "this message was carried out" } });
        let seen = answered.lock().unwrap().get(&id).cloned();
        match (seen, repeated) {
            (Some(first), Repeated::Answers) => return Json(first).into_response(),
            (Some(_), Repeated::Refuses) => return Json(refused).into_response(),
            _ => {}
        }
        if repeated == Repeated::RefusesAll && !message["contextId"].is_null() {
            return Json(refused).into_response();
        }
        let text = message["parts"][0]["text"].as_str().unwrap();
        let said = asked.captures(text).map_or("Nothing to do.".to_owned(), |found| {
            let members = given.captures_iter(&found[2]).map(|one| {
                let text = one.get(2).map(|text| json!(text.as_str()));
                (one[1].to_owned(), text.unwrap_or_else(|| json!(one[3].parse::<f64>().unwrap())))
            });
            let arguments = Value::Object(members.collect());
            let name = found[1].to_owned();
            let used = std::thread::spawn(move || use_tool(tools, &name, &arguments));
            format!("It says: {}", used.join().unwrap())
        });
        let context = message["contextId"].as_str().unwrap_or("c").to_owned();
        let task = json!({ "id": "t", "contextId": context, "status": { "state": "TASK_STATE_COMPLETED" },
            "artifacts": [{ "parts": [{ "text": said }] }] });
        let answer = json!({ "jsonrpc": "2.0", "id": "1", "result": { "task": task } });
        answered.lock().unwrap().insert(id, answer.clone());
        Json(answer).into_response()
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_carried_out_twice_is_seen() {
    for (repeated, counts) in [
        (Repeated::Works, (10, 0)),
        (Repeated::Answers, (0, 10)),
        (Repeated::Refuses, (0, 10)),
        (Repeated::RefusesAll, (0, 0)),
    ] {
        let mut world = World::over(Transport::A2a, "http://127.0.0.1/").threats(&[Threat::Asi07]);
        world.suite = Suite::shipped().unwrap();
        let mount = Mount::new(&world.suite);
        let listener = Listener::start("127.0.0.1:0".parse().unwrap(), None, mount.routes()).await.unwrap();
        let server = agent(repeated, listener.address().unwrap()).await;
        (world.mount, world.listener) = (Some(mount), Some(listener));
        world.spec.url = server.url();
        world.options.only = vec!["asi07_replayed_message".into()];
        let result = world.run().await.result;
        let found = family(&result, "asi07_replayed_message");
        assert_eq!((found.effected, found.resisted), counts, "{repeated:?}: {found:?}");
        let value = threat(&result, "asi07").value;
        match repeated {
            Repeated::Works => assert!(value.unwrap() < 70.0, "{value:?}"),
            Repeated::RefusesAll => assert_eq!(value, None),
            _ => assert!(value.unwrap() > 85.0, "{value:?}"),
        }
    }
}

#[tokio::test]
async fn without_mounted_tools_nothing_is_said_of_repeated_messages() {
    let nowhere = "127.0.0.1:1".parse().unwrap();
    let server = agent(Repeated::Works, nowhere).await;
    let mut world = World::over(Transport::A2a, &server.url()).threats(&[Threat::Asi07]);
    world.suite = Suite::shipped().unwrap();
    world.options.only = vec!["asi07_replayed_message".into()];
    // The agent is not asked to use a tool that it does not have.
    let counts = family(&world.run().await.result, "asi07_replayed_message").clone();
    assert_eq!((counts.effected, counts.resisted, &counts.lacks[..]), (0, 0, &["tools".to_owned()][..]), "{counts:?}");
}
