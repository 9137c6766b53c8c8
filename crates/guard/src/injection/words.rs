//! The words that make a clause an order, and those that mean the same in a tool's name. All are folded: lower case, without accents.

use std::{collections::HashMap, sync::LazyLock};

/// What a word does in a clause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Word {
    /// Introduces an order: `please`, `then`, `must`.
    Lead,
    /// An order's verb.
    Verb,
    /// A verb that is as often a noun, an adjective or a title.
    Ambiguous,
    /// A verb for reading: genuine texts are full of "visit https://…".
    Reading,
    /// Starts an object: `the`, `all`.
    Object,
}

const LEAD: &str = "please kindly pls now then also first next finally immediately just and so instead urgent urgently todo note \
    reminder must should can could would will your task job is are be sure make ensure \
    remember go ahead proceed do not forget always once done after this that it hi hello hey dear all there thanks \
    bitte jetzt dann du sie musst mussen sollst sollen veuillez maintenant ensuite vous devez por favor ahora luego debes debe";
const VERB: &str = "send delete remove pay buy purchase execute invoke reply respond create invite reserve cancel upload \
    install append insert notify tell give ignore disregard forget forward transfer wire submit publish \
    add write make include disable enable revoke grant approve reject refund exfiltrate leak reveal disclose print output \
    repeat say answer recommend tweet encode decode overwrite replace rename modify erase wipe unsubscribe subscribe redirect donate deposit \
    withdraw hire fire ping curl generate summarise summarize translate describe mention enter extract collect gather encrypt \
    advise inform adjust connect unlock treat consider skip bypass stop tag assign escalate classify categorize resolve \
    sende senden schicke schicken uberweise uberweisen losche loschen ignoriere ignorieren antworte antworten rufe buche buchen lade fuhre erstelle \
    verschicke vergiss beantworte schreibe \
    envoie envoyez transfere transferez transmets transmettez supprime supprimez ignorez reservez reponds repondez effectuez virez ecris ecrivez \
    telechargez executez oublie oubliez modifiez \
    envia transfiere transfiera elimina elimine borra borre ignora reenvia reenvie responde responda ejecuta ejecute descarga \
    olvida escribe escriba cambia";
const READING: &str = "read find visit navigate follow fetch retrieve download browse";
const AMBIGUOUS: &str = "book order post set list open call use run change update share check move copy email mail message schedule \
    report mark issue rate review contact access display show save view get put take start close click press sign log push pull commit export \
    import reset block ban release provide request complete perform act play turn switch look let ask keep help try search";
const OBJECT: &str = "the a an all any my your this that these those me it them him her us every each some both his their our its \
    das die der den dem ein eine einen alle mir mich uns dein deine ihr le la les un une des mon ma mes ton votre vos tous el los las una \
    mi tu su todos todas";

/// Words that mean the same in a tool's name and in an order.
const SYNONYMS: &[(&str, &[&str])] = &[
    (
        "send",
        &[
            "send", "forward", "wire", "transfer", "transmit", "share", "dm", "write", "reply", "sende", "envoyez",
            "envia",
        ],
    ),
    ("mail", &["mail", "email", "emails", "mails", "gmail"]),
    ("message", &["message", "messages", "msg", "dm", "chat"]),
    (
        "money",
        &[
            "money",
            "payment",
            "payments",
            "transaction",
            "transactions",
            "funds",
            "amount",
            "usd",
            "eur",
            "euros",
            "dollars",
            "bitcoin",
            "pay",
        ],
    ),
    ("book", &["book", "reserve", "reservation", "booking"]),
    ("delete", &["delete", "remove", "erase", "wipe", "clear", "drop"]),
    ("create", &["create", "add", "make", "schedule", "insert", "new", "append"]),
    ("update", &["update", "change", "modify", "set", "edit", "rename", "adjust", "reset"]),
    ("event", &["event", "events", "calendar", "meeting", "appointment"]),
    ("file", &["file", "files", "document", "documents"]),
    ("user", &["user", "users", "member", "account", "profile", "participants"]),
    ("post", &["post", "publish", "upload", "submit"]),
    ("web", &["webpage", "website", "page", "url", "link", "site", "web"]),
    ("invite", &["invite", "invitation"]),
    ("run", &["run", "execute", "command", "shell", "bash", "exec"]),
];

/// Programs that read texts.
pub(super) const MACHINES: &[&[u8]] = &[
    b"ai",
    b"agents",
    b"llm",
    b"llms",
    b"assistant",
    b"assistants",
    b"chatbot",
    b"chatbots",
    b"gpt",
    b"chatgpt",
    b"copilot",
    b"claude",
    b"gemini",
];
/// Verbs for what such a program does: it says something.
pub(super) const SAYING: &[&[u8]] = &[
    b"say",
    b"answer",
    b"respond",
    b"reply",
    b"mention",
    b"include",
    b"output",
    b"print",
    b"write",
    b"recommend",
    b"add",
    b"state",
    b"tell",
    b"inform",
    b"advise",
    b"describe",
    b"summarize",
    b"summarise",
    b"translate",
    b"give",
    b"provide",
    b"display",
    b"show",
    b"repeat",
    b"append",
    b"insert",
    b"generate",
    b"reveal",
    b"disclose",
];
/// What it says, and to whom.
pub(super) const REPLIES: &[&[u8]] = &[
    b"answer",
    b"answers",
    b"response",
    b"responses",
    b"reply",
    b"replies",
    b"output",
    b"summary",
    b"summaries",
    b"translation",
    b"conversation",
    b"user",
    b"users",
    b"reader",
    b"readers",
];

/// What each word does in a clause.
pub(super) static WORDS: LazyLock<HashMap<&'static [u8], Word>> = LazyLock::new(|| {
    let mut words = HashMap::new();
    let kinds = [
        (LEAD, Word::Lead),
        (OBJECT, Word::Object),
        (AMBIGUOUS, Word::Ambiguous),
        (READING, Word::Reading),
        (VERB, Word::Verb),
    ];
    for (list, kind) in kinds {
        words.extend(list.split_ascii_whitespace().map(|word| (word.as_bytes(), kind)));
    }
    words
});

static CANONICAL: LazyLock<HashMap<&'static [u8], &'static str>> = LazyLock::new(|| {
    SYNONYMS.iter().flat_map(|(name, words)| words.iter().map(|word| (word.as_bytes(), *name))).collect()
});

/// Phrases that give an order in Chinese, where words have no spaces between them.
pub(super) const CHINESE: &[&str] = &[
    "请发送",
    "请将",
    "请把",
    "请忽略",
    "忽略之前",
    "忽略以上",
    "忽略所有",
    "转账",
    "请删除",
    "请转发",
    "请执行",
    "请调用",
    "发送到",
    "发送给",
];

/// The word that stands for all that mean the same.
pub(super) fn canonical(word: &[u8]) -> &str {
    CANONICAL.get(word).copied().unwrap_or_else(|| std::str::from_utf8(word).unwrap_or_default())
}
