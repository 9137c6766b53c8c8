//! `credence crawl list`: every source that is at hand, and whether it was added.

use std::process::ExitCode;

use credence_pipeline::query;
use serde_json::{Value, json};

use super::known::known;
use crate::{
    commands::Done,
    home::Home,
    output::{self, Output},
};

pub fn list(home: &Home, out: &Output) -> Done {
    let added: Vec<(String, f64)> = if home.config_file().exists() {
        let reader = home.reader()?;
        query::sources(&*reader.view()?)?.into_iter().map(|(id, row)| (id, row.weight)).collect()
    } else {
        Vec::new()
    };
    let mut list: Vec<Value> = Vec::new();
    for one in known(home)? {
        let source = &one.source;
        let optional = source.secret().is_some_and(|(_, required)| !required);
        list.push(json!({ "name": one.name, "id": source.id, "title": source.title, "version": source.version, "built_in": one.built_in,
            "subject": source.subject.key(), "owner": source.owner, "roots": source.roots, "licence": source.licence,
            "tags": source.tags(), "host": source.host(), "secret": source.secret().map(|(env, _)| env),
            "secret_optional": optional }));
    }
    #[cfg(feature = "chain")]
    list.extend(super::chains::listed(home)?);
    for one in &mut list {
        let weight = added.iter().find(|(id, _)| one["id"] == id.as_str()).map(|(_, weight)| *weight);
        one["added"] = json!(weight.is_some());
        one["weight"] = json!(weight);
    }
    out.show(&list, || {
        let rows = list.iter().map(|one| {
            let text = |member: &str| one[member].as_str().unwrap_or_default().to_owned();
            let tags: Vec<&str> = one["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let optional = if one["secret_optional"] == true { " (optional)" } else { "" };
            vec![
                text("name"),
                one["weight"].as_f64().map_or("–".to_owned(), |weight| weight.to_string()),
                text("subject"),
                tags.join(", "),
                format!("{}{optional}", text("secret")),
                text("title"),
            ]
        });
        output::table(&["name", "weight", "about", "measures", "secret", "source"], &["weight"], rows)
    })?;
    Ok(ExitCode::SUCCESS)
}
