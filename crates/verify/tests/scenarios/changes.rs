//! The changes.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::{
    Scenario,
    tools::{self, pick, words},
};

const fn scenario(name: &'static str, tool: super::Tool, change: super::Change) -> Scenario {
    Scenario { name, tool, change }
}

fn chance(random: &mut Rng, percent: u32) -> bool {
    random.u32(..100) < percent
}

fn rename(value: &mut Value, from: &str, to: &str) {
    if let Some(moved) = value.as_object_mut().and_then(|object| object.remove(from)) {
        value[to] = moved;
    }
}

fn drop_member(value: &mut Value, key: &str) {
    if let Some(object) = value.as_object_mut() {
        object.remove(key);
    }
}

/// Sentences of a service that errs, each with something of the call in it.
fn error_text(random: &mut Rng) -> Value {
    let reference = format!("{:08x}", random.u32(..));
    json!(match random.u32(..4) {
        0 => format!("Error: upstream timed out after {} ms (request {reference})", random.u32(1_000..9_000)),
        1 => format!("Error: no such record: {}", words(random, 1)),
        2 => format!("Error 503: service unavailable, reference {reference}"),
        _ => format!("Error: permission denied for {}", words(random, 2)),
    })
}

fn error_object(random: &mut Rng) -> Value {
    json!({"error": {"code": pick(random, &["not_found", "timeout", "denied"]), "message": error_text(random)}})
}

/// Every value but the containers is passed through `change`.
fn each(value: &mut Value, change: &mut dyn FnMut(&mut Value)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each(item, change)),
        Value::Object(members) => members.values_mut().for_each(|member| each(member, change)),
        scalar => change(scalar),
    }
}

/// Scalars as text, as some gateways write numbers.
fn stringly(value: &mut Value) {
    each(value, &mut |scalar| {
        if let Value::Number(number) = scalar {
            *scalar = json!(number.to_string());
        }
    });
}

fn camel(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(camel),
        Value::Object(members) => {
            let renamed: Map<String, Value> = std::mem::take(members)
                .into_iter()
                .map(|(key, mut member)| {
                    camel(&mut member);
                    let mut parts = key.split('_');
                    let mut name = parts.next().unwrap_or_default().to_owned();
                    for part in parts {
                        let (first, rest) = part.split_at(1.min(part.len()));
                        name = name + &first.to_uppercase() + rest;
                    }
                    (name, member)
                })
                .collect();
            *members = renamed;
        }
        _ => {}
    }
}

/// Every change, each on a tool where it happens.
pub const SCENARIOS: &[Scenario] = &[
    scenario("nothing changes: orders", tools::order, |_, _, _| {}),
    scenario("nothing changes: search", tools::search, |_, _, _| {}),
    scenario("nothing changes: users", tools::user, |_, _, _| {}),
    scenario("constant answer, then another text", tools::git_status, |row, _, _| {
        row.result =
            json!("On branch main\nChanges not staged for commit:\n  modified:   src/lib.rs\n(use \"git add\")");
    }),
    scenario("constant answer, then another object", tools::health, |row, _, _| {
        row.result = json!({"status": "degraded", "queue": 1742, "version": "1.4.2", "region": "north"});
    }),
    scenario("constant answer, then one with more members", tools::health, |row, _, _| {
        row.result = json!({"status": "red", "queue": 12, "version": "1.5.0", "region": "north", "incident": {"id": "I-9", "since": "08:00"}});
    }),
    scenario("status flapping every 33 calls", tools::health, |row, _, since| {
        if since / 33 % 2 == 0 {
            row.result = json!({"status": "degraded", "queue": 40, "version": "1.4.2", "region": "north"});
        }
    }),
    scenario("another status every 33 calls", tools::git_status, |row, _, since| {
        row.result = json!(format!(
            "On branch main\nmodified: src/file{}.rs\nmodified: docs/page-{}.md",
            since / 33,
            since / 33
        ));
    }),
    scenario("another queue length every 7 calls", tools::health, |row, _, since| {
        row.result["queue"] = json!(3 + since / 7 * 5);
    }),
    scenario("a status that changes once and back", tools::health, |row, _, since| {
        if since < 60 {
            row.result["status"] = json!("maintenance");
        }
    }),
    scenario("new field", tools::order, |row, random, _| row.result["warehouse"] = json!(words(random, 1))),
    scenario("new field in items", tools::tickets, |row, random, _| {
        for item in row.result.as_array_mut().into_iter().flatten() {
            item["labels"] = json!([words(random, 1)]);
        }
    }),
    scenario("new optional field, 30 %", tools::user, |row, random, _| {
        if chance(random, 30) {
            row.result["phone"] = json!(format!("+49 30 {}", random.u32(100_000..999_999)));
        }
    }),
    scenario("renamed field", tools::order, |row, _, _| rename(&mut row.result, "status", "state")),
    scenario("renamed field in items", tools::search, |row, _, _| {
        for item in row.result["results"].as_array_mut().into_iter().flatten() {
            rename(item, "title", "headline");
        }
    }),
    scenario("v2 envelope", tools::order, |row, random, _| {
        let inner = std::mem::take(&mut row.result);
        row.result = json!({"data": inner, "meta": {"version": 2, "request_id": format!("{:016x}", random.u64(..))}});
    }),
    scenario("v2 envelope around a list", tools::tickets, |row, _, _| {
        let inner = std::mem::take(&mut row.result);
        let count = inner.as_array().map_or(0, Vec::len);
        row.result = json!({"items": inner, "count": count, "page": 1});
    }),
    scenario("camel case", tools::order, |row, _, _| camel(&mut row.result)),
    scenario("numbers become text", tools::metrics, |row, _, _| stringly(&mut row.result)),
    scenario("other locale", tools::order, |row, random, _| {
        row.result["placed_at"] = json!(format!(
            "{:02}.{:02}.2026 {:02}:{:02}",
            random.u32(1..29),
            random.u32(1..13),
            random.u32(..24),
            random.u32(..60)
        ));
        let total = row.result["total"].as_f64().unwrap_or_default();
        row.result["total"] = json!(format!("{total:.2}").replace('.', ","));
        row.result["status"] = json!(pick(random, &["offen", "bezahlt", "versandt"]));
        row.result["note"] = json!(format!("für {} übergröße", words(random, 3)));
    }),
    scenario("text in another language", tools::read_text, |row, _, _| {
        let text = row.result.as_str().unwrap_or_default().replace('a', "ä").replace('e', "ё");
        row.result = json!(text);
    }),
    scenario("empty lists, 10 %", tools::search, |row, random, _| {
        if chance(random, 10) {
            (row.result["results"], row.result["total"]) = (json!([]), json!(0));
        }
    }),
    scenario("empty root lists, 10 %", tools::tickets, |row, random, _| {
        if chance(random, 10) {
            row.result = json!([]);
        }
    }),
    scenario("empty tables, 25 %", tools::sql, |row, random, _| {
        if chance(random, 25) {
            row.result = json!({"rows": [], "row_count": 0, "truncated": false});
        }
    }),
    scenario("nulls, 20 %", tools::user, |row, random, _| {
        if chance(random, 20) {
            row.result["nickname"] = Value::Null;
        }
    }),
    scenario("nulls in several members, 20 % each", tools::user, |row, random, _| {
        for key in ["nickname", "manager", "balance", "plan"] {
            if chance(random, 20) {
                row.result[key] = Value::Null;
            }
        }
    }),
    scenario("null results, 5 %", tools::order, |row, random, _| {
        if chance(random, 5) {
            row.result = Value::Null;
        }
    }),
    scenario("last pages", tools::search, |row, random, _| {
        if chance(random, 15) {
            let keep = random.usize(1..9);
            if let Some(list) = row.result["results"].as_array_mut() {
                list.truncate(keep);
            }
            drop_member(&mut row.result, "next");
        }
    }),
    scenario("last pages with a null cursor", tools::search, |row, random, _| {
        if chance(random, 15) {
            let keep = random.usize(1..9);
            if let Some(list) = row.result["results"].as_array_mut() {
                list.truncate(keep);
            }
            row.result["next"] = Value::Null;
        }
    }),
    scenario("errors in words, 1 %", tools::order, |row, random, since| {
        if since % 100 == 40 {
            row.result = error_text(random);
        }
    }),
    scenario("errors in words, 10 %", tools::user, |row, random, _| {
        if chance(random, 10) {
            row.result = error_text(random);
        }
    }),
    scenario("errors in words, 30 %", tools::order, |row, random, _| {
        if chance(random, 30) {
            row.result = error_text(random);
        }
    }),
    scenario("errors in words where results are text", tools::read_text, |row, random, _| {
        if chance(random, 20) {
            row.result = error_text(random);
        }
    }),
    scenario("error objects, 1 %", tools::order, |row, random, since| {
        if since % 100 == 70 {
            row.result = error_object(random);
        }
    }),
    scenario("error objects, 30 %", tools::search, |row, random, _| {
        if chance(random, 30) {
            row.result = error_object(random);
        }
    }),
    scenario("declared errors, 20 %", tools::order, |row, random, _| {
        if chance(random, 20) {
            (row.result, row.is_error) = (error_text(random), true);
        }
    }),
    scenario("first error ever", tools::user, |row, random, since| {
        if since == 0 {
            row.result = error_text(random);
        }
    }),
    scenario("first declared error ever", tools::user, |row, random, since| {
        if since == 0 {
            (row.result, row.is_error) = (error_text(random), true);
        }
    }),
    scenario("slow answers", tools::order, |row, random, _| row.ms = Some(3_000.0 + 9_000.0 * random.f64())),
    scenario("slower and slower", tools::weather, |row, random, since| {
        row.ms = Some((100.0 + since as f64 * 40.0) * (0.8 + 0.4 * random.f64()));
    }),
    scenario("faster by a cache", tools::order, |row, random, _| {
        if chance(random, 40) {
            row.ms = Some(2.0 + 3.0 * random.f64());
        }
    }),
    scenario("no more latencies", tools::order, |row, _, _| row.ms = None),
    scenario("ids gain a digit", tools::user, |row, _, since| {
        let id = 10_000 + since as u32 * 3;
        (row.result["id"], row.args["id"]) = (json!(id), json!(id));
    }),
    scenario("numbers in text gain a digit", tools::order, |row, random, _| {
        let number = format!("O-{}", random.u32(100_000..199_999));
        (row.result["order_id"], row.args["order_id"]) = (json!(number), json!(number));
    }),
    scenario("another unit", tools::weather, |row, _, _| {
        let celsius = row.result["temperature"].as_f64().unwrap_or_default();
        row.result["temperature"] = json!(libm::round((celsius * 1.8 + 32.0) * 10.0) / 10.0);
    }),
    scenario("milliseconds become microseconds", tools::metrics, |row, _, _| {
        let ms = row.result["p99_ms"].as_f64().unwrap_or_default();
        row.result["p99_ms"] = json!(ms * 1_000.0);
    }),
    scenario("more values of an enumeration", tools::order, |row, random, _| {
        if chance(random, 25) {
            row.result["status"] = json!(pick(random, &["returned", "lost", "on_hold"]));
        }
    }),
    scenario("timestamps in another format", tools::order, |row, random, _| {
        row.result["placed_at"] = json!(1_780_000_000 + random.u64(..9_000_000));
    }),
    scenario("timestamps with a time zone", tools::weather, |row, _, _| {
        let at = row.result["observed_at"].as_str().unwrap_or_default().replace('Z', "+02:00");
        row.result["observed_at"] = json!(at);
    }),
    scenario("timestamps with milliseconds", tools::order, |row, random, _| {
        let at =
            row.result["placed_at"].as_str().unwrap_or_default().replace('Z', &format!(".{:03}Z", random.u32(..1000)));
        row.result["placed_at"] = json!(at);
    }),
    scenario("another precision", tools::order, |row, random, _| {
        row.result["total"] = json!(row.result["total"].as_f64().unwrap_or_default() + random.f64() / 1_000.0);
    }),
    scenario("whole numbers become fractions", tools::metrics, |row, random, _| {
        row.result["errors"] = json!(row.result["errors"].as_f64().unwrap_or_default() + random.f64());
    }),
    scenario("lists grow", tools::tickets, |row, random, since| {
        let one = row.result[0].clone();
        for n in 0..8 + since / 10 {
            let mut item = one.clone();
            item["title"] = json!(words(random, 4));
            item["points"] = json!(1 + n % 8);
            row.result.as_array_mut().into_iter().for_each(|list| list.push(item.clone()));
        }
    }),
    scenario("longer texts", tools::read_text, |row, random, _| {
        let text = row.result.as_str().unwrap_or_default();
        let more: Vec<String> = (0..40).map(|n| format!("{}: {}", n + 10, words(random, 6))).collect();
        row.result = json!(format!("{text}\n{}", more.join("\n")));
    }),
    scenario("nested object added", tools::weather, |row, random, _| {
        row.result["wind"] = json!({"speed": random.u32(..90), "direction": pick(random, &["N", "E", "S", "W"]), "gusts": {"max": random.u32(..140)}});
    }),
    scenario("optional member disappears", tools::user, |row, _, _| drop_member(&mut row.result, "nickname")),
    scenario("optional member disappears, half", tools::user, |row, random, _| {
        if chance(random, 50) {
            drop_member(&mut row.result, "manager");
        }
    }),
    scenario("counter reset", tools::metrics, |row, _, since| {
        (row.result["requests"], row.result["uptime_s"]) = (json!(since * 1_000), json!(since * 60));
    }),
    scenario("another currency", tools::order, |row, _, _| {
        let total = row.result["total"].as_f64().unwrap_or_default();
        (row.result["currency"], row.result["total"]) = (json!("JPY"), json!(libm::round(total * 160.0)));
    }),
    scenario("upgraded twice", tools::order, |row, random, since| {
        row.result["api"] = json!("v2");
        if since >= 150 {
            rename(&mut row.result, "note", "comment");
            row.result["tax"] = json!(f64::from(random.u32(100..900)) / 100.0);
        }
    }),
    scenario("two versions side by side", tools::order, |row, random, _| {
        if random.bool() {
            rename(&mut row.result, "status", "state");
            row.result["version"] = json!(2);
        }
    }),
    scenario("one in ten from the new version", tools::order, |row, _, since| {
        if since % 10 == 3 {
            let inner = std::mem::take(&mut row.result);
            row.result = json!({"data": inner});
        }
    }),
    scenario("a canary release that grows", tools::user, |row, random, since| {
        if random.usize(..300) < since {
            row.result["profile"] = json!({"language": "en", "theme": pick(random, &["dark", "light"])});
            drop_member(&mut row.result, "nickname");
        }
    }),
    scenario("a release that is taken back", tools::user, |row, _, since| {
        if since < 100 {
            rename(&mut row.result, "plan", "subscription");
        }
    }),
    scenario("nightly batch", tools::metrics, |row, random, since| {
        if since % 100 >= 80 {
            row.result["requests"] = json!(90_000_000 + random.u64(..9_000_000));
            row.result["cpu"] = json!(0.97);
            row.result["batch"] = json!(true);
        }
    }),
    scenario("a cache that goes stale, then refreshes", tools::weather, |row, _, since| {
        row.result["cached"] = json!(since % 50 >= 10);
        row.result["observed_at"] = json!(format!("2026-06-{:02}T08:00:00Z", 1 + since / 50));
    }),
    scenario("another cursor", tools::search, |row, random, _| {
        row.result["next"] = json!({"after": random.u64(..1 << 50), "limit": 10});
    }),
    scenario("opaque cursors get longer", tools::search, |row, random, _| {
        row.result["next"] = json!(format!("eyJ{:016x}{:016x}==", random.u64(..), random.u64(..)));
    }),
    scenario("rate-limit storms", tools::order, |row, random, since| {
        if since % 60 < 12 {
            row.result = json!({"message": format!("Too many requests, retry in {} s", random.u32(1..60)), "retry_after": random.u32(1..60)});
        }
    }),
    scenario("maintenance page for a while", tools::tickets, |row, _, since| {
        if (50..90).contains(&since) {
            row.result = json!("<html><body><h1>Scheduled maintenance</h1><p>We will be back soon.</p></body></html>");
        }
    }),
    scenario("objects become lists", tools::weather, |row, _, _| {
        let inner = std::mem::take(&mut row.result);
        row.result = json!([inner]);
    }),
    scenario("text becomes an object", tools::read_text, |row, _, _| {
        let text = std::mem::take(&mut row.result);
        row.result = json!({"content": text, "encoding": "utf-8"});
    }),
    scenario("ids become uuids", tools::user, |row, random, _| {
        let id = format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            random.u32(..),
            random.u16(..),
            random.u16(..0xfff),
            random.u16(..0xfff),
            random.u64(..1 << 48)
        );
        (row.result["id"], row.args["id"]) = (json!(id), json!(id));
    }),
    scenario("the echo goes", tools::order, |row, random, _| {
        row.result["order_id"] = json!(format!("O-{}", random.u32(10_000..99_999)))
    }),
    scenario("all at once", tools::order, |row, random, _| {
        camel(&mut row.result);
        stringly(&mut row.result);
        row.result =
            json!({"ok": true, "payload": std::mem::take(&mut row.result), "trace": format!("{:x}", random.u64(..))});
    }),
    scenario("values drift", tools::metrics, |row, random, since| {
        row.result["cpu"] = json!(0.9 + since as f64 / 100.0 + random.f64() / 10.0);
        row.result["errors"] = json!(40 + since as u32 + random.u32(..10));
    }),
    scenario("a map gains keys", tools::health, |row, _, since| {
        row.result["nodes"] =
            Value::Object((0..=since / 60).map(|n| (format!("node-{}", tools::WORDS[n % 16]), json!("up"))).collect());
    }),
];
