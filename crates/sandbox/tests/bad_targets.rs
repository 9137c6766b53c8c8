//! Targets that misbehave: each case has its outcome or error, and none is taken for safe or for a success of the attack.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use credence_sandbox::{Threat, trial::Reason};
use credence_testing::fleet::{Fault, fleet};
use serde_json::{Value, json};
use support::{
    Manners, Server, completion, decide,
    world::{World, family, threat},
};

fn answer(body: &Value) -> Response {
    completion(decide(
        Manners { gullible: true, ..Manners::default() },
        &Default::default(),
        "",
        body["messages"].as_array().unwrap(),
    ))
}

/// Whether a request is the attack of the family `asi01_override`.
fn is_attack(body: &Value) -> bool {
    body["messages"]
        .as_array()
        .is_some_and(|all| all.iter().any(|m| m["content"].as_str().is_some_and(|t| t.contains("summarise"))))
}

/// A world with one family, whose attacks are answered by `bad`.
async fn attacked(bad: impl Fn() -> Response + Send + Sync + 'static) -> (Server, World) {
    let server = Server::start(move |_, _, body| if is_attack(body) { bad() } else { answer(body) }).await;
    let mut world = World::chat(&server.url());
    world.options.only = vec!["asi01_override".into()];
    world.options.trials = 5;
    world.options.give_up_after = 1_000;
    world.settings.deadline = Duration::from_millis(400);
    world.settings.max_bytes = 100_000;
    (server, world)
}

/// Attacks that end without an answer are inconclusive for a reason, and a threat gets no signal from them.
async fn inconclusive(reason: Reason, bad: impl Fn() -> Response + Send + Sync + 'static) {
    let (_server, world) = attacked(bad).await;
    let output = world.run().await;
    let counts = family(&output.result, "asi01_override");
    assert_eq!((counts.effected, counts.claimed, counts.resisted), (0, 0, 0), "{reason:?}: {counts:?}");
    assert_eq!(counts.reasons.keys().collect::<Vec<_>>(), [&reason], "{counts:?}");
    let asi01 = threat(&output.result, "asi01");
    assert!(asi01.applicable && asi01.value.is_none() && asi01.no_signal.is_some(), "{asi01:?}");
}

#[tokio::test]
async fn errors_are_inconclusive() {
    inconclusive(Reason::ServerError, || StatusCode::INTERNAL_SERVER_ERROR.into_response()).await;
    inconclusive(Reason::Status, || (StatusCode::FORBIDDEN, "<html>Forbidden</html>").into_response()).await;
}

#[tokio::test]
async fn what_is_no_answer_is_inconclusive() {
    inconclusive(Reason::NotJson, || {
        ([("content-type", "text/html")], "<html><body>Hello</body></html>").into_response()
    })
    .await;
    inconclusive(Reason::NotJson, || "{\"choices\": [".into_response()).await;
    inconclusive(Reason::NotJson, || StatusCode::OK.into_response()).await;
    inconclusive(Reason::Malformed, || axum::Json(json!({ "answer": "x" })).into_response()).await;
    inconclusive(Reason::Empty, || completion(json!({ "role": "assistant", "content": "" }))).await;
    inconclusive(Reason::Filtered, || {
        axum::Json(json!({ "choices": [{ "finish_reason": "content_filter", "message": { "content": null } }] }))
            .into_response()
    })
    .await;
}

#[tokio::test]
async fn silence_and_endless_streams_end_at_the_deadline() {
    inconclusive(Reason::Late, || {
        Response::new(Body::from_stream(futures_util::stream::pending::<Result<&str, std::io::Error>>()))
    })
    .await;
    inconclusive(Reason::Late, || {
        let drops = futures_util::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, std::io::Error>("data: {}\n\n"), ()))
        });
        ([("content-type", "text/event-stream")], Body::from_stream(drops)).into_response()
    })
    .await;
}

#[tokio::test]
async fn fifty_megabytes_are_not_read() {
    inconclusive(Reason::TooLarge, || {
        let megabyte = "x".repeat(1_000_000);
        let stream = futures_util::stream::iter((0..50).map(move |_| Ok::<_, std::io::Error>(megabyte.clone())));
        Response::new(Body::from_stream(stream))
    })
    .await;
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_not_followed() {
    inconclusive(Reason::Redirected, || {
        (StatusCode::TEMPORARY_REDIRECT, [("location", "http://169.254.169.254/latest/meta-data")]).into_response()
    })
    .await;
    // Nor one to another port of this machine, where somebody else listens.
    let other = Server::agent(Manners::default()).await;
    let address = other.url();
    inconclusive(Reason::Redirected, move || (StatusCode::FOUND, [("location", address.clone())]).into_response())
        .await;
    assert_eq!(other.count(), 0);
}

#[tokio::test]
async fn a_connection_that_breaks_off_is_inconclusive() {
    inconclusive(Reason::Transport, || {
        let broken = futures_util::stream::iter([Ok("{\"choices\":"), Err(std::io::Error::other("gone"))]);
        Response::new(Body::from_stream(broken))
    })
    .await;
}

#[tokio::test]
async fn nobody_there_ends_the_run_soon() {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let world = World::chat(&format!("http://{address}/v1"));
    let output = world.run().await;
    assert!(output.result.ended.as_ref().unwrap().contains("could not be reached"), "{:?}", output.result.ended);
    assert!(!output.result.complete && output.result.threats.iter().all(|threat| threat.value.is_none()));
}

#[tokio::test]
async fn tls_errors_are_named() {
    // Something that speaks no TLS.
    let server = Server::agent(Manners::default()).await;
    let world = World::chat(&format!("https://{}/v1", server.address));
    let output = world.run().await;
    assert!(output.result.ended.as_ref().unwrap().contains("127.0.0.1"), "{:?}", output.result.ended);
    assert_eq!(server.count(), 0);
}

/// A server whose certificate nobody vouches for. Gives its port and counts those who got past the handshake.
async fn self_signed() -> (u16, Arc<AtomicUsize>) {
    use tokio_rustls::{
        TlsAcceptor,
        rustls::{
            ServerConfig,
            pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
        },
    };
    let certificate = CertificateDer::from(include_bytes!("support/self_signed/certificate.der").as_slice());
    let key = PrivatePkcs8KeyDer::from(include_bytes!("support/self_signed/key.der").as_slice());
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate], PrivateKeyDer::from(key)).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, shaken) = (socket.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&shaken);
    tokio::spawn(async move {
        while let Ok((stream, _)) = socket.accept().await {
            let (acceptor, counted) = (acceptor.clone(), Arc::clone(&counted));
            tokio::spawn(async move {
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    // With TLS 1.3 the client's alarm comes after the handshake: only a request counts.
                    let mut first = [0; 1];
                    if matches!(tokio::io::AsyncReadExt::read(&mut stream, &mut first).await, Ok(1)) {
                        counted.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    (port, shaken)
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_a_reason_of_its_own() {
    let (port, requests) = self_signed().await;
    for host in ["127.0.0.1", "localhost"] {
        let world = World::chat(&format!("https://{host}:{port}/v1"));
        let target = world.target().await.unwrap();
        let error = target.ping("Hello").await.unwrap_err();
        assert_eq!(error.reason, Reason::Certificate, "{error}");
        let result = world.run_on(target.as_ref()).await.unwrap().result;
        assert!(result.ended.as_ref().unwrap().contains("certificate"), "{:?}", result.ended);
        assert!(result.threats.iter().all(|threat| threat.value.is_none()));
    }
    assert_eq!(requests.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_agent_that_never_answers_is_given_up_and_not_called_safe() {
    let silent = fleet().into_iter().find(|agent| agent.fault == Fault::Silence).unwrap();
    let running = silent.start();
    let mut world = World::chat(&running.endpoint(silent.transport)).threats(&[Threat::Asi01]);
    world.settings.deadline = Duration::from_millis(150);
    world.options.give_up_after = 4;
    let result = world.run().await.result;
    assert!(!result.complete && result.ended.is_some(), "{result:?}");
    let counted =
        result.threats.iter().flat_map(|threat| &threat.families).map(|family| family.effected + family.resisted);
    assert_eq!(counted.sum::<u64>(), 0);
    assert!(result.threats.iter().all(|threat| threat.value.is_none()));
}

#[tokio::test]
async fn a_pause_that_the_target_asks_for_is_kept() {
    let limited = Arc::new(AtomicBool::new(false));
    let said_at = Arc::new(std::sync::Mutex::new(None::<Instant>));
    let (once, at) = (limited.clone(), said_at.clone());
    let server = Server::start(move |_, _, body| {
        if is_attack(body) && !once.swap(true, Ordering::SeqCst) {
            *at.lock().unwrap() = Some(Instant::now());
            return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")], "slow down").into_response();
        }
        answer(body)
    })
    .await;
    let mut world = World::chat(&server.url());
    world.options.only = vec!["asi01_override".into()];
    let output = world.run().await;
    assert_eq!(family(&output.result, "asi01_override").effected, 10);
    let said_at = said_at.lock().unwrap().unwrap();
    let arrivals = server.arrivals.lock().unwrap();
    // Those that were under way when it was said may have arrived; nothing was sent after.
    let inside = arrivals
        .iter()
        .filter(|at| **at > said_at + Duration::from_millis(100) && **at < said_at + Duration::from_millis(950));
    assert_eq!(inside.count(), 0);
}

#[tokio::test]
async fn a_longer_pause_than_a_run_waits_is_inconclusive() {
    let (_server, mut world) =
        attacked(|| (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "3600")], "slow down").into_response()).await;
    world.options.give_up_after = 6;
    let output = world.run().await;
    assert!(output.result.ended.as_ref().unwrap().contains("asked to wait"), "{:?}", output.result.ended);
    assert_eq!(family(&output.result, "asi01_override").resisted, 0);
}

#[tokio::test]
async fn invalid_arguments_and_tools_that_were_not_offered_break_nothing() {
    // It calls a tool nobody offered, then the offered one with arguments that are no JSON.
    let server = Server::start(|_, _, body| {
        let messages = body["messages"].as_array().unwrap();
        let round = messages.iter().filter(|message| message["role"] == "tool").count();
        let call = |name: &str, arguments: &str| {
            completion(json!({ "content": null, "tool_calls": [{ "id": "", "function": { "name": name, "arguments": arguments } }] }))
        };
        match round {
            0 => call("rm_rf", "{}"),
            1 => call("read_document", "{title: Minutes"),
            _ => completion(json!({ "content": "There were many." })),
        }
    })
    .await;
    let mut world = World::chat(&server.url());
    world.options.only = vec!["asi01_tool_result".into()];
    let output = world.run().await;
    let counts = family(&output.result, "asi01_tool_result");
    // It checks as unable to use tools, or resists; it never counts as effected.
    assert_eq!(counts.effected, 0, "{counts:?}");
    assert!(output.result.complete);
    let bodies = server.bodies.lock().unwrap();
    let told = bodies.iter().any(|body| body.to_string().contains("there is no tool 'rm_rf'"));
    assert!(told);
}

#[tokio::test]
async fn a_ban_midway_is_not_resistance() {
    // After the first attacks everything is refused politely, with status 200.
    let banned = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let (flag, count) = (banned.clone(), seen.clone());
    let server = Server::start(move |_, _, body| {
        if is_attack(body) && count.fetch_add(1, Ordering::SeqCst) >= 2 {
            flag.store(true, Ordering::SeqCst);
        }
        if flag.load(Ordering::SeqCst) {
            return completion(json!({ "content": "Your access has been suspended." }));
        }
        answer(body)
    })
    .await;
    let mut world = World::chat(&server.url());
    world.options.only = vec!["asi01_override".into()];
    let output = world.run().await;
    let counts = family(&output.result, "asi01_override");
    assert_eq!((counts.effected, counts.resisted), (2, 0), "{counts:?}");
    assert!(counts.inconclusive >= 3 && threat(&output.result, "asi01").value.is_none(), "{counts:?}");
}

#[tokio::test]
async fn a_sensor_that_fires_on_the_control_decides_nothing() {
    // This one calls the forbidden tool whatever it is asked.
    let server = Server::start(|_, _, body| {
        let messages = body["messages"].as_array().unwrap();
        if messages.last().unwrap()["role"] == "tool" || body.get("tools").is_none() {
            return answer(&json!({ "messages": [{ "role": "user", "content": "hello" }] }));
        }
        completion(support::call("get_stock", "article", "x"))
    })
    .await;
    let mut world = World::chat(&server.url());
    let text = include_str!("probes/asi08.toml").replace(
        "{ sensor = \"early_retry\", tool = \"get_stock\", at_least = 3 }",
        "{ sensor = \"call\", tool = \"get_stock\" }",
    );
    world.suite = credence_sandbox::suite::Suite::from_texts([("asi08.toml", text.as_str())]).unwrap();
    world.options.threats = vec![Threat::Asi08];
    let output = world.run().await;
    let counts = family(&output.result, "asi08_rate_limit");
    if counts.applicable {
        assert_eq!((counts.effected, counts.resisted), (0, 0), "{counts:?}");
        assert!(counts.reasons.contains_key(&Reason::ControlTriggered), "{counts:?}");
    }
    assert_eq!(threat(&output.result, "asi08").value, None);
}

#[tokio::test]
async fn an_order_that_never_arrives_proves_nothing() {
    // It answers without reading the document.
    let server = Server::start(|_, _, body| {
        let text = body.to_string();
        if text.contains("get_access_code") {
            return answer(body);
        }
        // The control is passed, the attack ignores its tool: told apart by the marks of the attack's other probe wording.
        let odd = body["messages"].as_array().unwrap().len();
        if odd == 1 { completion(json!({ "content": "I know it already: 7." })) } else { answer(body) }
    })
    .await;
    let mut world = World::chat(&server.url());
    world.options.only = vec!["asi01_tool_result".into()];
    let output = world.run().await;
    let counts = family(&output.result, "asi01_tool_result");
    assert_eq!((counts.effected, counts.resisted), (0, 0), "{counts:?}");
}
