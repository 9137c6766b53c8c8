//! Every execution has a receipt: what the server recorded, held against what the guard recorded.

use std::{collections::HashMap, fs};

use credence_protocol::{
    EntityId,
    receipt::{Exact, Receipt, Salts, cut_name},
};
use credence_receipts::{Archive, Filter, folder};
use credence_testing::Shell;

use super::reading::{self, Json};

/// One execution, as the server recorded it.
#[derive(Debug)]
pub struct Execution {
    pub tool: String,
    arguments: Option<Json>,
}

/// What a server has executed so far.
pub fn executions(shell: &Shell) -> Vec<Execution> {
    let bytes = fs::read(shell.path("effects")).unwrap_or_default();
    let how = reading::ALL[0];
    let all = reading::values(&bytes, how).into_iter().map(|done| Execution {
        tool: done.get("tool", how).and_then(Json::text).unwrap_or_default().to_owned(),
        arguments: done.get("arguments", how).cloned(),
    });
    all.collect()
}

/// Every receipt and every call that is known to be unanswered, with its salts, read as anyone with the guard's folder reads them.
pub fn recorded(shell: &Shell) -> Vec<(Receipt, Option<Salts>)> {
    let state = shell.path("state");
    let key = folder::read_or_create_key(&folder::key_file(&state)).unwrap();
    let archive = Archive::open(&state, &EntityId::new("guard").unwrap(), &key).unwrap();
    let mut all = Vec::new();
    let mut each = |found: credence_receipts::FoundReceipt, private: Option<credence_receipts::Private>| {
        all.push((found.receipt, private.map(|private| private.salts)));
        Ok(())
    };
    archive.visit(&Filter::default(), &mut each, &mut |problem| panic!("{problem}")).unwrap();
    all
}

/// What is wrong: executions without a receipt of that tool and those arguments, and verdicts on calls that were not executed.
pub fn violations(executions: &[Execution], recorded: &[(Receipt, Option<Salts>)]) -> Vec<(String, String)> {
    let mut by_tool: HashMap<&str, Vec<&(Receipt, Option<Salts>)>> = HashMap::new();
    recorded.iter().for_each(|one| by_tool.entry(one.0.tool.as_str()).or_default().push(one));
    let mut wrong = Vec::new();
    for execution in executions {
        let left = by_tool.entry(&execution.tool).or_default();
        let left = if left.is_empty() { by_tool.entry(leaked(cut_name(&execution.tool))).or_default() } else { left };
        match left.iter().position(|one| is_of(execution, one)) {
            Some(found) => drop(left.swap_remove(found)),
            None if left.is_empty() => {
                wrong.push((execution.tool.clone(), "it was executed without a receipt".to_owned()))
            }
            None => {
                let other = left.swap_remove(0).0.call;
                let why = format!("the receipt {other} commits to other arguments than {:?}", execution.arguments);
                wrong.push((execution.tool.clone(), why));
            }
        }
    }
    for (receipt, _) in by_tool.into_values().flatten().filter(|one| one.0.verdict.is_some()) {
        wrong.push((receipt.tool.clone(), format!("a result was judged and nothing was executed: {}", receipt.call)));
    }
    wrong
}

fn leaked(text: String) -> &'static str {
    text.leak()
}

/// Whether the receipt commits to these arguments. Those that readers write differently are not compared.
fn is_of(execution: &Execution, (receipt, salts): &(Receipt, Option<Salts>)) -> bool {
    let Some(salts) = salts else { return true };
    let text = match &execution.arguments {
        None => "null".to_owned(),
        Some(arguments) => match arguments.exact(true) {
            Some(text) => text,
            None => return true,
        },
    };
    let Ok(arguments) = Exact::parse(&text) else { return true };
    salts.arguments(Some(&arguments)) == receipt.arguments
}
