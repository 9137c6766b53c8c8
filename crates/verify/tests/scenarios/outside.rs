//! Changes that somebody thought of who had not seen the others, on tools of their own.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::{
    Row, Scenario,
    tools::{pick, row, words},
};

const fn scenario(name: &'static str, tool: super::Tool, change: super::Change) -> Scenario {
    Scenario { name, tool, change }
}

fn chance(random: &mut Rng, percent: u32) -> bool {
    random.u32(..100) < percent
}

fn drawn(random: &mut Rng, length: usize, from: &[u8]) -> String {
    (0..length).map(|_| char::from(from[random.usize(..from.len())])).collect()
}

fn hex(random: &mut Rng, length: usize) -> String {
    drawn(random, length, b"0123456789abcdef")
}

fn base64(random: &mut Rng, length: usize) -> String {
    drawn(random, length, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}

fn day(random: &mut Rng) -> String {
    format!("2026-{:02}-{:02}", random.u32(1..13), random.u32(1..29))
}

fn cents(random: &mut Rng, below: u32) -> f64 {
    f64::from(random.u32(100..below)) / 100.0
}

/// The last transactions of one of thirty accounts.
fn bank(random: &mut Rng, _: usize) -> Row {
    let account = format!("ACC{:04}", random.u32(1..30));
    let list: Vec<Value> = (0..5)
        .map(|_| {
            json!({
                "id": format!("txn_{}", hex(random, 12)), "amount": cents(random, 60_000) - 300.0, "currency": "USD", "date": day(random),
                "merchant": format!("{} {}", words(random, 1), pick(random, &["Ltd", "Inc", "GmbH"])), "pending": chance(random, 10),
            })
        })
        .collect();
    let result = json!({"account": account, "balance": cents(random, 2_000_000), "transactions": list});
    row(random, json!({"account": account, "limit": 5}), result)
}

fn transactions(row: &mut Row) -> impl Iterator<Item = &mut Value> {
    row.result["transactions"].as_array_mut().into_iter().flatten()
}

/// Where a flight is; times in seconds.
fn flight(random: &mut Rng, n: usize) -> Row {
    let number = format!("{}{}", pick(random, &["LH", "AF", "BA", "UA"]), random.u32(100..2_000));
    let departure = 1_780_000_000 + n as u64 * 900 + random.u64(..80_000);
    let result = json!({
        "flight": number, "status": pick(random, &["scheduled", "boarding", "departed", "landed"]), "from": pick(random, &["FRA", "CDG", "LHR", "JFK"]),
        "to": pick(random, &["SFO", "MAD", "OSL", "NRT"]), "departure": departure, "arrival": departure + 3_600 + random.u64(..30_000),
        "gate": format!("{}{}", pick(random, &["A", "B", "C"]), random.u32(1..40)), "delay": if chance(random, 70) { 0 } else { random.u32(5..90) },
    });
    row(random, json!({"flight": number}), result)
}

/// What runs in a namespace, as a table of text.
fn pods(random: &mut Rng, _: usize) -> Row {
    let mut table = "NAME                     READY   STATUS    RESTARTS   AGE\n".to_owned();
    for _ in 0..random.usize(3..7) {
        let name = format!("{}-{}-{}", words(random, 1), hex(random, 9), hex(random, 5));
        table += &format!("{name:<24} 1/1     Running   {:<10} {}d\n", random.u32(..4), random.u32(1..90));
    }
    let namespace = pick(random, &["web", "batch", "infra", "data"]);
    row(random, json!({"namespace": namespace}), json!(table))
}

/// An issue as a block of text.
fn issue(random: &mut Rng, _: usize) -> Row {
    let number = random.u32(1..4_000);
    let (title, state) = (words(random, 5), pick(random, &["open", "closed"]));
    let text = format!("#{number} {title}\nState: {state}\nAuthor: {}\n\n{}", words(random, 1), words(random, 14));
    row(random, json!({"issue": number}), json!({"content": [{"type": "text", "text": text}]}))
}

/// Who is in a team, by an id of its own.
fn roster(random: &mut Rng, _: usize) -> Row {
    let members: Map<String, Value> = (0..random.usize(2..6))
        .map(|_| {
            let key = format!("u_{}", random.u32(10_000..99_999));
            (key, json!({"name": words(random, 2), "role": pick(random, &["dev", "ops", "lead"]), "active": chance(random, 90)}))
        })
        .collect();
    let team = pick(random, &["red", "blue", "green", "gold"]);
    row(random, json!({"team": team}), json!({"team": team, "members": members}))
}

/// A number, and nothing else.
fn count(random: &mut Rng, _: usize) -> Row {
    let number = random.u32(100..9_000);
    let asked = json!({"table": words(random, 1), "where": format!("age > {}", random.u32(..60))});
    row(random, asked, json!(number))
}

/// Whether a domain can be bought: each could.
fn domain(random: &mut Rng, _: usize) -> Row {
    let name = format!("{}{}.example", words(random, 1), random.u32(1..999));
    let result = json!({"domain": name, "available": true, "price": cents(random, 4_000), "currency": "USD"});
    row(random, json!({"domain": name}), result)
}

/// A job that is asked for ten times until it is done.
fn job(random: &mut Rng, n: usize) -> Row {
    let id = format!("job-{:05}", 20_000 + n / 10);
    let progress = n % 10 * 11;
    let result = json!({
        "job": id, "state": if n % 10 == 9 { "done" } else { "running" }, "progress": progress,
        "processed": progress as u32 * 40 + random.u32(..40), "worker": format!("w{}", n / 10 % 6),
    });
    row(random, json!({"job": id}), result)
}

/// A person by an id that is never the same.
fn contact(random: &mut Rng, _: usize) -> Row {
    let (id, name) = (format!("c-{}", hex(random, 16)), words(random, 2));
    let result = json!({
        "contact": id, "name": name, "email": format!("{}@mail.example", name.replace(' ', ".")), "phone": format!("+1-202-555-{:04}", random.u32(..10_000)),
        "age": random.u32(18..90), "city": pick(random, &["Boston", "Denver", "Austin", "Tampa"]), "newsletter": random.bool(), "score": cents(random, 10_000),
    });
    row(random, json!({"contact": id}), result)
}

/// The events of a day.
fn calendar(random: &mut Rng, _: usize) -> Row {
    let date = day(random);
    let events: Vec<Value> = (0..random.usize(1..5))
        .map(|_| {
            let hour = random.u32(8..18);
            json!({"title": words(random, 3), "start": format!("{date}T{hour:02}:00:00Z"), "end": format!("{date}T{hour:02}:30:00Z"), "room": pick(random, &["Oak", "Elm", "Fir", "none"])})
        })
        .collect();
    row(random, json!({"date": date}), json!({"date": date, "events": events}))
}

/// What is deployed: constant arguments, constant answer.
fn version(random: &mut Rng, _: usize) -> Row {
    row(random, json!({}), json!({"service": "billing", "version": "2.3.1", "commit": "9f2c1ab", "healthy": true}))
}

/// Who one is: a text that stays.
fn whoami(random: &mut Rng, _: usize) -> Row {
    row(random, json!({"verbose": false}), json!("svc-deploy@prod-eu-1 (read-only)"))
}

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("a cursor appears", bank, |row, random, _| {
        row.result["has_more"] = json!(true);
        row.result["cursor"] = json!(base64(random, 20));
    }),
    scenario("ids of items in another form", bank, |row, random, _| {
        transactions(row).for_each(|item| item["id"] = json!(format!("{}-{}", hex(random, 8), hex(random, 12))));
    }),
    scenario("a sign in place of a currency", bank, |row, _, _| {
        transactions(row).for_each(|item| item["currency"] = json!("€"));
    }),
    scenario("amounts become texts with a sign", bank, |row, _, _| {
        transactions(row)
            .for_each(|item| item["amount"] = json!(format!("${:.2}", item["amount"].as_f64().unwrap_or_default())));
    }),
    scenario("lists of any length", bank, |row, random, _| {
        let keep = random.usize(..6);
        row.result["transactions"].as_array_mut().into_iter().for_each(|list| list.truncate(keep));
    }),
    scenario("seconds become milliseconds", flight, |row, _, _| {
        for key in ["departure", "arrival"] {
            row.result[key] = json!(row.result[key].as_u64().unwrap_or_default() * 1_000);
        }
    }),
    scenario("one more value of an enumeration", flight, |row, random, _| {
        if chance(random, 10) {
            row.result["status"] = json!("diverted");
        }
    }),
    scenario("a text about maintenance", flight, |row, _, since| {
        if since < 25 {
            row.result = json!(format!("We are down for maintenance. Please retry in {} minutes.", 25 - since));
        }
    }),
    scenario("nothing at weekends", calendar, |row, _, since| {
        if since % 7 >= 5 {
            row.result["events"] = json!([]);
        }
    }),
    scenario("weeks without anything", calendar, |row, _, since| {
        if since / 30 % 2 == 0 {
            row.result["events"] = json!([]);
        }
    }),
    scenario("a table says that there is nothing", pods, |row, random, _| {
        if chance(random, 20) {
            row.result = json!(format!(
                "No resources found in {} namespace.",
                row.args["namespace"].as_str().unwrap_or_default()
            ));
        }
    }),
    scenario("a row of a table in another state", pods, |row, _, _| {
        let table = row.result.as_str().unwrap_or_default().replacen("Running  ", "CrashLoopBackOff", 1);
        row.result = json!(table.replacen("1/1", "0/1", 1));
    }),
    scenario("longer texts in a block", issue, |row, random, _| {
        let text = row.result["content"][0]["text"].as_str().unwrap_or_default();
        row.result["content"][0]["text"] =
            json!(format!("{text}\n\n## Comments\n{}\n{}", words(random, 30), words(random, 25)));
    }),
    scenario("one more block", issue, |row, _, _| {
        let link = json!({"type": "resource_link", "uri": format!("issue://{}", row.args["issue"]), "name": "issue"});
        row.result["content"].as_array_mut().into_iter().for_each(|blocks| blocks.push(link.clone()));
    }),
    scenario("keys of a map in another form", roster, |row, random, _| {
        let members = row.result["members"].as_object().into_iter().flatten();
        let renamed: Map<String, Value> =
            members.map(|(_, member)| (format!("user:{}", hex(random, 8)), member.clone())).collect();
        row.result["members"] = Value::Object(renamed);
    }),
    scenario("a number becomes an object", count, |row, _, _| {
        row.result = json!({"count": row.result.take(), "approximate": false});
    }),
    scenario("numbers with separators", count, |row, _, _| {
        let number = row.result.as_u64().unwrap_or_default();
        row.result = json!(if number < 1_000 {
            number.to_string()
        } else {
            format!("{},{:03}", number / 1_000, number % 1_000)
        });
    }),
    scenario("what was always true, 40 % not", domain, |row, random, _| {
        if chance(random, 40) {
            (row.result["available"], row.result["price"]) = (json!(false), Value::Null);
        }
    }),
    scenario("jobs that wait and fail", job, |row, random, since| {
        if since % 10 == 0 {
            row.result["state"] = json!("queued");
            row.result.as_object_mut().into_iter().for_each(|job| drop(job.remove("worker")));
        }
        if since % 20 == 19 {
            (row.result["state"], row.result["error"]) = (json!("failed"), json!(words(random, 4)));
        }
    }),
    scenario("progress as a share", job, |row, _, _| {
        row.result["progress"] = json!(row.result["progress"].as_f64().unwrap_or_default() / 100.0);
    }),
    scenario("names in other alphabets, 30 %", contact, |row, random, _| {
        if chance(random, 30) {
            row.result["name"] = json!(pick(random, &["Zoë Müller", "Łukasz Çelik", "Þór Øvergård", "小明 王"]));
        }
    }),
    scenario("pages of a gateway that errs, 5 %", contact, |row, random, _| {
        if chance(random, 5) {
            row.result = json!(
                "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1><hr>edge/1.25.3</body></html>"
            );
        }
    }),
    scenario("a picture as text", contact, |row, random, _| {
        let length = random.usize(200..900);
        row.result["avatar"] = json!(base64(random, length));
    }),
    scenario("limits of the rate as objects, 15 %", contact, |row, random, _| {
        if chance(random, 15) {
            row.result = json!({"errors": [{"message": "Throttled", "extensions": {"code": "THROTTLED", "retryAfter": random.u32(1..60)}}]});
        }
    }),
    scenario("members that are left out, half", contact, |row, random, _| {
        for key in ["phone", "age", "city", "newsletter", "score"] {
            if random.bool() {
                row.result.as_object_mut().into_iter().for_each(|contact| drop(contact.remove(key)));
            }
        }
    }),
    scenario("healthy and not every three calls", version, |row, _, since| {
        row.result["healthy"] = json!(since / 3 % 2 == 1)
    }),
    scenario("a deployment every 60 calls", version, |row, _, since| {
        row.result["version"] = json!(format!("2.{}.0", 4 + since / 60));
        row.result["commit"] = json!(["aa01bb2", "bc77d10", "c0ffee1", "d15ea5e", "e66f00d"][since / 60]);
    }),
    scenario("a text that counts past nine", whoami, |row, _, since| {
        row.result = json!(format!("svc-deploy@prod-eu-{} (read-only)", 2 + since / 20));
    }),
];
