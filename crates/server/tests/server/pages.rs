//! The dashboard as HTTP sees it; `browser.rs` looks at it in a browser.

use credence_testing::{Reply, Service, until};
use serde_json::json;

const HTML: [(&str, &str); 1] = [("accept", "text/html,application/xhtml+xml")];
const FORM: &str = "application/x-www-form-urlencoded";

/// A service as a browser sees it.
trait Pages {
    fn page(&self, path: &str) -> Reply;
    /// The ids on the list of agents, in order.
    fn ranked(&self, query: &str) -> Vec<String>;
    fn form(&self, path: &str, cookie: &str, origin: &str, body: &str) -> Reply;
}

impl Pages for Service {
    fn page(&self, path: &str) -> Reply {
        self.get_with(path, &HTML)
    }

    fn ranked(&self, query: &str) -> Vec<String> {
        let page = self.page(&format!("/{query}"));
        assert_eq!(page.status, 200);
        let text = page.text();
        let links = text.split("class=\"agent\"><a href=\"/agents/").skip(1);
        links.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    }

    fn form(&self, path: &str, cookie: &str, origin: &str, body: &str) -> Reply {
        let client = reqwest::blocking::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        let request = client.post(format!("{}{path}", self.url)).header("content-type", FORM).header("cookie", cookie);
        let request = if origin.is_empty() { request } else { request.header("origin", origin) };
        self.send(request.body(body.to_owned()))
    }
}

#[test]
fn the_front_is_a_page_for_browsers_and_json_for_programs() {
    let service = Service::fresh(&[]);
    assert_eq!(service.get("/").ok()["service"], "credence");
    let page = service.page("/");
    assert!(page.header("content-type").starts_with("text/html"), "{page:?}");
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    assert_eq!(page.header("access-control-allow-origin"), "", "pages are not for the scripts of other sites");
    for path in ["/tools", "/log", "/sources", "/outcomes", "/reports", "/status", "/sign-in", "/?q=x&page=9"] {
        let page = service.page(path);
        assert_eq!((page.status, page.header("content-security-policy")), (200, policy), "{path}");
        let text = page.text();
        assert!(!text.contains("style=") && !text.contains("<style") && !text.contains("onclick"), "{path}");
        let scripts = text.matches("<script").count();
        assert_eq!(scripts, text.matches("<script src=\"/assets/").count(), "{path}: no script within a page");
    }
    let missing = service.page("/agents/nobody");
    assert_eq!(missing.status, 404);
    assert!(missing.header("content-type").starts_with("text/html") && missing.text().contains("nobody"));
    for asset in ["page.css", "live.js", "proof.js", "mark.svg"] {
        let file = service.get(&format!("/assets/{asset}"));
        assert_eq!(file.status, 200, "{asset}");
        assert!(file.header("cache-control").contains("immutable"));
    }
    service.get("/assets/../credence.toml").refused(404, "no_such_path");
}

#[test]
fn what_agents_call_themselves_is_text() {
    let service = Service::fresh(&[]);
    let name = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(2)>";
    service.post("/v1/agents", &json!({ "agent": "evil", "name": name, "owner": "someone" })).created();
    service.add_source("lab");
    service.submit("evil", "lab", "rel_uptime", 80.0);
    until("it is scored", || service.get("/v1/agents/evil").ok()["score"]["sources"] == 1);
    let token = service.token("verify");
    let trace = json!({ "tool": "</code><script>alert(3)</script>", "result": { "<b>": 1 }, "agent": "<i>x</i>" });
    for _ in 0..10 {
        assert_eq!(service.post_as(&token, "/v1/verify", &trace).status, 200);
    }
    let bearer = format!("Bearer {token}");
    let tool = "/tools/%3C%2Fcode%3E%3Cscript%3Ealert(3)%3C%2Fscript%3E";
    for path in [
        "/",
        "/agents/evil",
        "/?q=%3Cscript%3E",
        "/agents/%3Cscript%3E",
        "/log?entry=%3Csvg%3E",
        "/sources",
        "/tools",
        tool,
    ] {
        let page = service.get_with(path, &[HTML[0], ("authorization", &bearer)]);
        let text = page.text();
        assert!(text.contains("<main"), "{path}: {text}");
        for bad in ["<script>", "<img src=x", "<svg>", "<b>", "<i>x", "</title><script"] {
            assert!(!text.contains(bad), "{path} has {bad}");
        }
    }
    assert!(service.page("/agents/evil").text().contains("&#60;script&#62;alert(1)"), "it is shown as what it is");
}

#[test]
fn lists_are_ranked_searched_and_weighed_anew() {
    let service = Service::fresh(&[]);
    for (agent, a, b) in [("ant", 90.0, 20.0), ("bee", 50.0, 60.0), ("cat", 30.0, 95.0)] {
        service.add_agent(agent, &[]);
        for source in ["a", "b"] {
            if agent == "ant" {
                service.add_source(source);
            }
        }
        service.submit(agent, "a", "rel_uptime", a);
        service.submit(agent, "b", "identity_domain", b);
    }
    until("all are scored", || {
        ["ant", "bee", "cat"]
            .iter()
            .all(|agent| service.get(&format!("/v1/agents/{agent}")).ok()["score"]["sources"] == 2)
    });
    until("the list has caught up", || {
        let ranked = service.ranked("?sort=universal");
        ranked == ["cat", "bee", "ant"] || ranked == ["cat", "ant", "bee"]
    });
    // By default what can be vouched for decides, here as in the API.
    let api = |query: &str| -> Vec<String> {
        let found = service.get(&format!("/v1/agents?{query}")).ok();
        found["agents"].as_array().unwrap().iter().map(|one| one["agent"].as_str().unwrap().to_owned()).collect()
    };
    let assured = |agent: &str| {
        let shown = service.get(&format!("/v1/agents/{agent}")).ok()["assured"].clone();
        (shown["score"].as_u64().unwrap(), shown["estimate"].as_f64().unwrap(), shown["known"].as_f64().unwrap())
    };
    let mut expected = ["ant", "bee", "cat"];
    expected.sort_by(|a, b| assured(b).partial_cmp(&assured(a)).unwrap());
    assert_eq!(service.ranked(""), expected);
    assert_eq!(api("rank=assured"), expected);
    assert_eq!(api("rank=universal"), service.ranked("?sort=universal"));
    assert_eq!(api("rank=assured&limit=2&page=2"), expected[2..]);
    assert!(api("rank=assured&page=9").is_empty() && api("rank=assured&min_known=0.99").is_empty());
    assert!(service.ranked("?known=99").is_empty() && service.ranked("?known=5") == expected);
    for wrong in
        ["rank=best", "rank=assured&after=a", "rank=assured&min_known=2", "rank=assured&page=0", "min_known=0.5"]
    {
        service.get(&format!("/v1/agents?{wrong}")).refused(400, "bad_query");
    }
    assert_eq!(service.ranked("?sort=name"), ["ant", "bee", "cat"]);
    assert_eq!(service.ranked("?sort=name&reverse=1"), ["cat", "bee", "ant"]);
    assert_eq!(service.ranked("?q=BE"), ["bee"]);
    assert_eq!(service.ranked("?own=1&w.a=1&w.b=0"), ["ant", "bee", "cat"]);
    assert_eq!(service.ranked("?own=1&w.a=0&w.b=1"), ["cat", "bee", "ant"]);
    assert!(service.ranked("?tier=diamond").is_empty());
    // The sums that rank say what the API says of each.
    let page = service.page("/?own=1&w.a=0.25&w.b=1.5").text();
    for agent in ["ant", "bee", "cat"] {
        let custom = service.get(&format!("/v1/agents/{agent}/score?weights=a:0.25,b:1.5")).ok();
        let mean = format!("{:.1}", custom["custom"]["mean"].as_f64().unwrap());
        let stddev = format!("{:.1}", custom["custom"]["stddev"].as_f64().unwrap());
        let row = page.split(&format!("href=\"/agents/{agent}\"")).nth(1).unwrap().split("</tr>").next().unwrap();
        assert!(row.contains(&format!(">{mean}</td>")) && row.contains(&format!(">{stddev}</td>")), "{agent}: {row}");
    }
    // And it follows what is recorded.
    service.add_agent("dog", &[]);
    service.submit("dog", "a", "rel_uptime", 100.0);
    until("the newcomer is listed", || service.ranked("?q=dog") == ["dog"]);
}

#[test]
fn a_score_of_a_date_is_computed_again() {
    let service = Service::fresh(&[]);
    service.add_shop();
    let today = &service.get("/v1/agents/shop").ok()["score"]["recorded_at"].as_str().unwrap()[..10].to_owned();
    let page = service.page(&format!("/agents/shop?at={today}")).text();
    assert!(page.contains("the same to the last bit"), "{page}");
    assert!(page.contains("log₂ 9") && page.contains("3 independent sources"), "the formula, with numbers");
    assert!(page.contains(" assured · estimate ") && page.contains("− doubt "), "the assured score of then, as a sum");
    let none = service.page("/agents/shop?at=2020-01-01");
    assert_eq!(none.status, 200);
    assert!(none.text().contains("had no score"), "{}", none.text());
    assert!(service.page("/agents/shop?at=yesterday").text().contains("a date such as"));
    // The answer is the very one that a client gets.
    let answer = service.get("/v1/entities/shop/trust-signals?url=https://shop.example/de&context=purchase").ok();
    let shown = service.page("/agents/shop?context=purchase").text();
    assert!(shown.contains(answer["signature"].as_str().unwrap()), "the same signature");
}

#[test]
fn tokens_open_pages_through_a_session_and_stay_out_of_addresses() {
    let service = Service::fresh(&[]);
    let token = service.token("verify");
    for n in 0..12 {
        let trace = json!({ "tool": "clock", "args": { "n": n }, "result": { "n": n, "ms": 10 + n % 3 }, "execution_time_ms": 50 + n });
        assert_eq!(service.post_as(&token, "/v1/verify", &trace).status, 200);
    }
    assert!(service.page("/tools").text().contains("Sign in"), "not for everyone");
    let origin = service.url.clone();
    assert_eq!(service.form("/sign-in", "", &origin, "token=crd_wrong_wrong").status, 401);
    assert_eq!(service.form("/sign-in", "", "https://evil.example", &format!("token={token}")).status, 403);
    assert_eq!(service.form("/sign-in", "", "", &format!("token={token}")).status, 403);
    let signed_in = service.form("/sign-in", "", &origin, &format!("token={token}&next=//evil.example"));
    assert_eq!((signed_in.status, signed_in.header("location")), (303, "/"));
    let cookie = signed_in.header("set-cookie").to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains(&token), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let tools = service.get_with("/tools", &[HTML[0], ("cookie", &cookie)]).text();
    assert!(tools.contains("href=\"/tools/clock\""), "{tools}");
    let tool = service.get_with("/tools/clock", &[HTML[0], ("cookie", &cookie)]).text();
    assert!(tool.contains("Control charts") && tool.contains("12") && tool.contains("<svg"), "{tool}");
    // Cookies open pages and nothing else.
    service.get_with("/v1/tools", &[("cookie", &cookie)]).refused(401, "unauthorized");
    let said = "number=12&fabricated=false&next=/tools/clock?only=doubtful";
    assert_eq!(service.form("/feedback", &cookie, "https://evil.example", said).status, 403);
    assert_eq!(service.form("/feedback", "", &origin, said).status, 401);
    let thanks = service.form("/feedback", &cookie, &origin, said);
    assert_eq!((thanks.status, thanks.header("location")), (303, "/tools/clock?only=doubtful&thanks=1"));
    assert_eq!(service.form("/feedback", &cookie, &origin, said).status, 409, "a verdict is answered once");
    let nobody = "number=99&fabricated=true";
    assert_eq!(service.form("/feedback", &cookie, &origin, nobody).status, 409, "there is no such verdict");
    let feedback =
        service.post_as(&token, "/v1/feedback", &json!({ "tool": "clock", "posterior": 0.1, "fabricated": false }));
    assert_eq!(feedback.ok()["count"], 2, "the form went where the API goes");
    // Another token's tools are not to be seen.
    let other = service.token("verify");
    let other = format!("Bearer {other}");
    assert_eq!(service.get_with("/tools/clock", &[HTML[0], ("authorization", &other)]).status, 404);
    // A credential is the operator's to issue.
    service.add_shop();
    assert_eq!(service.form("/agents/shop/credential", &cookie, &origin, "").status, 403);
    let out = service.form("/sign-out", &cookie, &origin, "");
    assert_eq!(out.status, 303);
    assert!(service.get_with("/tools", &[HTML[0], ("cookie", &cookie)]).text().contains("Sign in"));
}

#[test]
fn what_was_judged_is_counted_on_after_a_restart() {
    let service = Service::fresh(&[]);
    let token = service.token("verify");
    for n in 0..20 {
        let trace = json!({ "tool": "clock", "result": { "n": n }, "execution_time_ms": 50 + n });
        assert_eq!(service.post_as(&token, "/v1/verify", &trace).status, 200);
    }
    let service = Service::start(service.stop(), &[]);
    let bearer = format!("Bearer {token}");
    let tools = service.get_with("/tools", &[HTML[0], ("authorization", &bearer)]).text();
    assert!(tools.contains("href=\"/tools/clock\">clock</a></th><td class=\"number\">20</td>"), "{tools}");
    let tool = service.get_with("/tools/clock", &[HTML[0], ("authorization", &bearer)]).text();
    assert!(tool.contains("Control charts") && tool.contains("None since the service started"), "{tool}");
}

#[test]
fn drawings_go_into_files() {
    let service = Service::fresh(&[]);
    service.add_shop();
    service.post("/v1/outcomes", &json!({ "agent": "shop", "good": true })).created();
    let shell = service.stop();
    for args in [&["history", "shop", "--plot", "history.svg"][..], &["calibration", "--plot", "curve.svg"]] {
        let out = shell.ok(args);
        assert!(out.contains("drawn into"), "{out}");
    }
    for (file, title) in [("history.svg", "Score of shop"), ("curve.svg", "Reliability of the scores")] {
        let svg = std::fs::read_to_string(shell.path(file)).unwrap();
        assert!(
            svg.contains("xmlns=\"http://www.w3.org/2000/svg\"") && svg.contains("<style>") && svg.contains(title),
            "{svg}"
        );
    }
}
