//! Pages of other sites cannot have their visitors record anything in an authority that is not public.

use credence_testing::{Reply, Service};
use serde_json::json;

const ASK: &str = "/v1/entities/shop/trust-signals?url=https://shop.example/de";
const HTML: (&str, &str) = ("accept", "text/html");
/// As browsers say it, for an image, a script, a link; old ones with one header or the other.
const FOREIGN: [&[(&str, &str)]; 5] = [
    &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
    &[("sec-fetch-site", "same-site"), ("origin", "http://localhost:3000")],
    &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
    &[("origin", "https://evil.example")],
    &[("referer", "https://evil.example/page")],
];

fn answers(service: &Service) -> String {
    let text = service.get("/metrics").text();
    text.lines().find(|line| line.starts_with("credence_answers_made_total ")).unwrap().to_owned()
}

fn ask(service: &Service, headers: &[(&str, &str)]) -> Reply {
    service.get_with(ASK, headers)
}

#[test]
fn a_page_cannot_record_in_an_authority_on_loopback() {
    let service = Service::fresh(&["requests_per_second=0"]);
    service.add_shop();
    let port = service.url.rsplit(':').next().unwrap().to_owned();
    let before = answers(&service);
    for headers in FOREIGN {
        ask(&service, headers).refused(403, "cross_site");
        // A link to an agent's page works, and has nothing signed.
        let headers: Vec<_> = headers.iter().copied().chain([HTML]).collect();
        assert_eq!(service.get_with("/agents/shop", &headers).status, 200);
    }
    // A site that gave its name this machine's address.
    for host in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1.evil.example"] {
        ask(&service, &[("host", host)]).refused(403, "cross_site");
        ask(&service, &[("host", host), ("sec-fetch-site", "same-origin")]).refused(403, "cross_site");
    }
    assert_eq!(answers(&service), before, "nothing was signed, nothing will be recorded");
    // Nor a proof of control: a script may send JSON after it asked.
    let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    for what in ["domain-challenges", "domain-verifications"] {
        let request = client.post(format!("{}/v1/agents/shop/{what}", service.url));
        let request = request.header("content-type", "application/json").header("origin", "https://evil.example");
        let body = json!({ "address": "https://shop.example/de" }).to_string();
        service.send(request.body(body)).refused(403, "cross_site");
    }
    // Badges are not recorded.
    assert_eq!(service.get_with("/v1/agents/shop/badge.svg", FOREIGN[0]).status, 200);
    // Programs, this service's own pages, what a person types, and tokens.
    let bearer = format!("Bearer {}", service.token);
    for headers in [
        &[][..],
        &[("sec-fetch-site", "same-origin")],
        &[("sec-fetch-site", "none")],
        &[("host", "localhost")],
        &[("origin", service.url.as_str())],
        &[("sec-fetch-site", "cross-site"), ("authorization", &bearer)],
    ] {
        assert_eq!(ask(&service, headers).status, 200, "{headers:?}");
    }
    assert_ne!(answers(&service), before);
}

#[test]
fn a_public_authority_is_for_every_page() {
    let service = Service::fresh(&["public_url=https://trust.example", "trust_forwarded_for=true"]);
    service.add_shop();
    for headers in FOREIGN {
        let with = |more: &[(&'static str, &'static str)]| -> Vec<_> {
            headers.iter().copied().chain(more.iter().copied()).collect()
        };
        assert_eq!(ask(&service, &with(&[("host", "trust.example")])).status, 200, "{headers:?}");
        assert_eq!(service.get_with("/v1/agents/shop/badge.svg", &with(&[("host", "trust.example")])).status, 200);
        assert_eq!(ask(&service, &with(&[("x-forwarded-for", "192.0.2.1")])).status, 200, "through the proxy");
        // Not through the proxy, but on the machine itself.
        ask(&service, headers).refused(403, "cross_site");
        ask(&service, &with(&[("host", "evil.example")])).refused(403, "cross_site");
    }
}
