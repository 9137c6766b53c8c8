//! The tools that simulated agents call: results with the shapes, sizes and latencies of real ones.
//!
//! A tool answers the same question in the same way, give or take what changes from day to day: that is what there is to learn.

use fastrand::Rng;
use serde_json::{Value, json};

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// The weather in a city.
    Weather,
    /// Exchange rates.
    FxRates,
    /// A search of the web.
    WebSearch,
    /// A question to a database.
    SqlQuery,
    /// Flights between two airports.
    Flights,
    /// A customer's invoices.
    Invoices,
}

/// A call with its result.
#[derive(Debug, Clone)]
pub struct Call {
    /// The tool's name.
    pub tool: &'static str,
    /// What it was asked.
    pub args: Value,
    /// What it gave.
    pub result: Value,
    /// How long it took.
    pub ms: f64,
}

const CITIES: &[(&str, f64, f64)] = &[
    ("Lisbon", 19.0, 64.0),
    ("Berlin", 11.0, 71.0),
    ("Oslo", 5.0, 78.0),
    ("Nairobi", 22.0, 58.0),
    ("Osaka", 17.0, 66.0),
    ("Denver", 9.0, 45.0),
];
const RATES: &[(&str, f64)] = &[("USD", 1.08), ("GBP", 0.86), ("JPY", 162.0), ("CHF", 0.95), ("SEK", 11.4)];
const TOPICS: &[&str] = &["heat pumps", "visa rules", "grain prices", "battery recycling", "tenant law", "ferry times"];
const SITES: &[&str] = &["handbook.example", "gazette.example", "forum.example", "archive.example"];
const TABLES: &[(&str, f64, f64)] = &[("orders", 420.0, 58.0), ("refunds", 31.0, 41.0), ("tickets", 180.0, 7.5)];
const ROUTES: &[(&str, &str, f64)] =
    &[("LIS", "BER", 189.0), ("OSL", "LIS", 204.0), ("BER", "OSL", 142.0), ("KIX", "HND", 96.0)];
const CUSTOMERS: &[(&str, f64)] = &[("C-1041", 240.0), ("C-2207", 1310.0), ("C-3380", 88.0), ("C-4926", 560.0)];

impl Tool {
    /// All of them.
    pub const ALL: [Tool; 6] =
        [Tool::Weather, Tool::FxRates, Tool::WebSearch, Tool::SqlQuery, Tool::Flights, Tool::Invoices];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Weather => "get_weather",
            Tool::FxRates => "fx_rates",
            Tool::WebSearch => "web_search",
            Tool::SqlQuery => "sql_query",
            Tool::Flights => "search_flights",
            Tool::Invoices => "list_invoices",
        }
    }

    /// A genuine call.
    pub fn call(self, rng: &mut Rng) -> Call {
        let (args, result) = match self {
            Tool::Weather => weather(rng),
            Tool::FxRates => fx_rates(rng),
            Tool::WebSearch => web_search(rng),
            Tool::SqlQuery => sql_query(rng),
            Tool::Flights => flights(rng),
            Tool::Invoices => invoices(rng),
        };
        let (usual, spread) = match self {
            Tool::Weather => (140.0, 35.0),
            Tool::FxRates => (60.0, 12.0),
            Tool::WebSearch => (520.0, 130.0),
            Tool::SqlQuery => (38.0, 11.0),
            Tool::Flights => (890.0, 210.0),
            Tool::Invoices => (95.0, 22.0),
        };
        let ms = round(f64::max(usual * 0.4, usual + spread * normal(rng)), 1);
        Call { tool: self.name(), args, result, ms }
    }
}

fn weather(rng: &mut Rng) -> (Value, Value) {
    let (city, warmth, humidity) = pick(rng, CITIES);
    let temperature = round(warmth + 3.0 * normal(rng), 1);
    let sky = ["clear", "cloudy", "rain", "overcast"][rng.usize(..4)];
    let result = json!({
        "city": city, "temperature_c": temperature, "feels_like_c": round(temperature - rng.f64() * 2.0, 1),
        "humidity": (humidity + 6.0 * normal(rng)).clamp(15.0, 100.0).round(), "wind_kph": round(12.0 + 4.0 * normal(rng).abs(), 1),
        "conditions": sky, "station": format!("ST-{}", &city[..3].to_uppercase()),
    });
    (json!({ "city": city, "units": "metric" }), result)
}

fn fx_rates(rng: &mut Rng) -> (Value, Value) {
    let (code, rate) = pick(rng, RATES);
    let mid = rate * (1.0 + 0.006 * normal(rng));
    let amount = [100.0, 250.0, 1000.0][rng.usize(..3)];
    let result = json!({
        "base": "EUR", "quote": code, "bid": round(mid * 0.9995, 5), "ask": round(mid * 1.0005, 5), "mid": round(mid, 5),
        "amount": amount, "converted": round(amount * mid, 2), "provider": "ecb-composite",
    });
    (json!({ "base": "EUR", "quote": code, "amount": amount }), result)
}

fn web_search(rng: &mut Rng) -> (Value, Value) {
    let topic = pick(rng, TOPICS);
    let hits: Vec<Value> = (0..5)
        .map(|rank| {
            let site = pick(rng, SITES);
            json!({
                "title": format!("{topic}: {} {}", ["what changed in", "a guide to", "numbers for"][rng.usize(..3)], 2024 + rng.u32(..3)),
                "url": format!("https://{site}/{}/{}", topic.replace(' ', "-"), rng.u32(1000..9999)),
                "score": round(0.97 - 0.09 * f64::from(rank) + 0.02 * normal(rng), 3),
            })
        })
        .collect();
    let total = (1200.0 * (1.0 + 0.15 * normal(rng))).max(300.0).round();
    (json!({ "query": topic, "limit": 5 }), json!({ "query": topic, "total": total, "results": hits }))
}

fn sql_query(rng: &mut Rng) -> (Value, Value) {
    let (table, rows, mean) = pick(rng, TABLES);
    let count = (rows * (1.0 + 0.05 * normal(rng))).max(1.0).round();
    let average = round(mean * (1.0 + 0.04 * normal(rng)), 2);
    let result = json!({
        "columns": ["day_count", "average", "total"], "row_count": 1,
        "rows": [{ "day_count": count, "average": average, "total": round(count * average, 2) }],
        "table": table, "scanned": (count * 14.0).round(),
    });
    (json!({ "table": table, "aggregate": "daily" }), result)
}

fn flights(rng: &mut Rng) -> (Value, Value) {
    let (from, to, fare) = pick(rng, ROUTES);
    let offers: Vec<Value> = (0..3)
        .map(|_| {
            json!({
                "carrier": pick(rng, &["TP", "LH", "SK", "NH"]), "number": format!("{}", rng.u32(100..999)),
                "departs": format!("{:02}:{:02}", rng.u32(6..22), 5 * rng.u32(..12)),
                "price": round((fare * (1.0 + 0.18 * normal(rng))).max(30.0), 2), "stops": rng.u32(..2), "currency": "EUR",
            })
        })
        .collect();
    (json!({ "from": from, "to": to, "adults": 1 }), json!({ "from": from, "to": to, "count": 3, "offers": offers }))
}

fn invoices(rng: &mut Rng) -> (Value, Value) {
    let (customer, usual) = pick(rng, CUSTOMERS);
    let list: Vec<Value> = (0..4)
        .map(|_| {
            let net = round((usual * (1.0 + 0.2 * normal(rng))).max(5.0), 2);
            json!({
                "id": format!("INV-{}", rng.u32(10_000..99_999)), "net": net, "vat": round(net * 0.19, 2),
                "status": if rng.f64() < 0.8 { "paid" } else { "open" },
            })
        })
        .collect();
    (json!({ "customer": customer, "limit": 4 }), json!({ "customer": customer, "currency": "EUR", "invoices": list }))
}

/// The same call from an upstream that changed its form: numbers as text, another name, one more field.
pub fn changed_upstream(mut call: Call, rng: &mut Rng) -> Call {
    if let Some(members) = call.result.as_object_mut() {
        if let Some(mid) = members.remove("mid") {
            members.insert("rate".to_owned(), mid);
        }
        for name in ["bid", "ask"] {
            if let Some(value) = members.get_mut(name) {
                *value = json!(value.to_string());
            }
        }
        members.insert("stale_seconds".to_owned(), json!(rng.u32(30..4000)));
    }
    call.ms = round(call.ms * (2.0 + 3.0 * rng.f64()), 1);
    call
}

pub(crate) fn pick<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())]
}

/// To so many decimals.
pub(crate) fn round(value: f64, places: i32) -> f64 {
    let scale = 10f64.powi(places);
    (value * scale).round() / scale
}

/// About normal: mean 0, standard deviation 1, never beyond 3.5 (the sum of four uniform numbers).
pub(crate) fn normal(rng: &mut Rng) -> f64 {
    ((0..4).map(|_| rng.f64()).sum::<f64>() - 2.0) * 3f64.sqrt()
}
