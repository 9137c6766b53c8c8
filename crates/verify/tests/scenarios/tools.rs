//! The tools, as they were.

use fastrand::Rng;
use serde_json::{Value, json};

use super::Row;

pub const WORDS: [&str; 16] = [
    "amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "haven", "inlet", "jetty", "knoll", "larch", "mesa",
    "north", "ocean", "pine",
];

pub fn pick<'a>(random: &mut Rng, of: &[&'a str]) -> &'a str {
    of[random.usize(..of.len())]
}

pub fn words(random: &mut Rng, count: usize) -> String {
    (0..count).map(|_| WORDS[random.usize(..WORDS.len())]).collect::<Vec<_>>().join(" ")
}

pub fn row(random: &mut Rng, args: Value, result: Value) -> Row {
    Row { args, result, ms: Some(80.0 + 60.0 * random.f64()), session: None, is_error: false }
}

/// An order of a shop, by its number.
pub fn order(random: &mut Rng, _: usize) -> Row {
    let number = random.u32(10_000..99_999);
    let items: Vec<Value> = (0..random.usize(1..4))
        .map(|_| {
            json!({"sku": format!("SKU-{}", random.u32(100..999)), "qty": random.u32(1..5), "price": f64::from(random.u32(500..9_000)) / 100.0})
        })
        .collect();
    let placed = format!(
        "2026-{:02}-{:02}T{:02}:{:02}:00Z",
        random.u32(1..13),
        random.u32(1..29),
        random.u32(..24),
        random.u32(..60)
    );
    let result = json!({
        "order_id": format!("O-{number}"), "status": pick(random, &["open", "paid", "shipped"]), "placed_at": placed,
        "customer": {"id": random.u32(1_000..9_999), "name": words(random, 2), "vip": random.bool()}, "items": items,
        "total": f64::from(random.u32(500..40_000)) / 100.0, "currency": "EUR", "note": words(random, 4),
    });
    row(random, json!({"order_id": format!("O-{number}")}), result)
}

/// The weather of one of forty cities.
pub fn weather(random: &mut Rng, n: usize) -> Row {
    let city = format!("{}-{}", WORDS[random.usize(..8)], random.u32(1..6));
    let result = json!({
        "city": city, "temperature": f64::from(random.i32(-50..350)) / 10.0, "humidity": random.u32(20..100),
        "condition": pick(random, &["sunny", "cloudy", "rain", "snow"]),
        "observed_at": format!("2026-05-{:02}T{:02}:{:02}:00Z", 1 + n / 100, random.u32(..24), random.u32(..60)),
    });
    row(random, json!({"city": city}), result)
}

/// A repository whose state stays as it is: constant arguments, constant answer.
pub fn git_status(random: &mut Rng, _: usize) -> Row {
    row(random, json!({"repo": "/srv/app"}), json!("On branch main\nnothing to commit, working tree clean"))
}

/// A health check: constant arguments, constant answer, an object.
pub fn health(random: &mut Rng, _: usize) -> Row {
    row(random, json!({}), json!({"status": "green", "queue": 0, "version": "1.4.2", "region": "north"}))
}

/// A paged search.
pub fn search(random: &mut Rng, _: usize) -> Row {
    let query = words(random, 2);
    let results: Vec<Value> = (0..10)
        .map(|_| {
            let slug = words(random, 2).replace(' ', "-");
            json!({"id": random.u32(100_000..999_999), "title": words(random, 3), "score": f64::from(random.u32(100..1000)) / 1000.0, "url": format!("https://example.org/{slug}")})
        })
        .collect();
    let page = random.u32(1..9);
    let result = json!({"query": query, "page": page, "results": results, "total": random.u32(100..5_000), "next": format!("c{:08x}", random.u32(..))});
    row(random, json!({"query": query, "page": page}), result)
}

/// The text of a file.
pub fn read_text(random: &mut Rng, _: usize) -> Row {
    let name = format!("{}.txt", words(random, 1));
    let lines: Vec<String> = (0..random.usize(3..9))
        .map(|n| {
            let count = random.usize(3..8);
            format!("{}: {}", n + 1, words(random, count))
        })
        .collect();
    let path = format!("/docs/{}/{name}", random.u32(1..400));
    row(random, json!({"path": path}), json!(lines.join("\n")))
}

/// A user by its id; ids grow slowly.
pub fn user(random: &mut Rng, n: usize) -> Row {
    let id = 9_000 + n as u32 + random.u32(..300);
    let name = words(random, 2);
    let result = json!({
        "id": id.min(9_999), "name": name, "email": format!("{}@example.org", name.replace(' ', ".")),
        "plan": pick(random, &["free", "team", "pro"]), "balance": random.u32(..50_000), "nickname": words(random, 1),
        "created_at": format!("2025-{:02}-{:02}", random.u32(1..13), random.u32(1..29)), "manager": {"id": random.u32(1_000..9_999)},
    });
    row(random, json!({"id": id.min(9_999)}), result)
}

/// Counters and gauges of one of eight services.
pub fn metrics(random: &mut Rng, n: usize) -> Row {
    let service = WORDS[random.usize(..8)];
    let result = json!({
        "service": service, "requests": 1_000_000 + n as u64 * 1_000 + random.u64(..500), "errors": random.u32(..40),
        "p99_ms": f64::from(random.u32(800..2_400)) / 10.0, "cpu": f64::from(random.u32(50..900)) / 1000.0, "uptime_s": 4_000 + n * 60,
    });
    row(random, json!({"service": service}), result)
}

/// A list of tickets at the root.
pub fn tickets(random: &mut Rng, _: usize) -> Row {
    let project = format!("P{}", random.u32(1..60));
    let list: Vec<Value> = (0..random.usize(1..8))
        .map(|_| {
            json!({"key": format!("{project}-{}", random.u32(100..999)), "title": words(random, 4), "state": pick(random, &["todo", "doing", "done"]), "assignee": words(random, 1), "points": random.u32(1..9)})
        })
        .collect();
    row(random, json!({"project": project}), Value::Array(list))
}

/// The rows of a table, as a text of a line each.
pub fn sql(random: &mut Rng, _: usize) -> Row {
    let rows: Vec<Value> = (0..random.usize(1..12))
        .map(|_| json!({"id": random.u32(1..5_000), "name": words(random, 1), "amount": f64::from(random.u32(100..90_000)) / 100.0}))
        .collect();
    let count = rows.len();
    let query = format!("select * from {} where id > {}", WORDS[random.usize(..5)], random.u32(..500));
    row(random, json!({"sql": query}), json!({"rows": rows, "row_count": count, "truncated": false}))
}
