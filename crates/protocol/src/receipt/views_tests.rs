//! What frameworks hand on of results, and what of it is the same.

use super::*;

const RESULT: &str = r#"{"content":[{"type":"text","text":"{\"t\":18}"},{"type":"text","text":"second\n"}],
    "structuredContent":{"t":18},"isError":false,"_meta":{"x":1}}"#;

fn views(result: &str) -> (Salt, Views) {
    let salt = Salt::generate().unwrap();
    let views = Views::commit(&salt, &forms_of_result(&Exact::parse(result).unwrap())).unwrap();
    (salt, views)
}

#[test]
fn what_frameworks_make_of_a_result_is_recognised() {
    let (salt, views) = views(RESULT);
    let claimed = |text: &str| views.matching(&salt, &readings_of_text(text));
    let dumped = r#"{"meta":null,"content":[{"type":"text","text":"{\"t\":18}","annotations":null,"meta":null},
        {"type":"text","text":"second\n"}],"structuredContent":{"t":18},"isError":false}"#;
    assert_eq!(claimed(dumped), Some(View::Whole));
    assert_eq!(
        claimed(r#"[{"type":"text","text":"{\"t\":18}"},{"type":"text","text":"second\n"}]"#),
        Some(View::Content)
    );
    assert_eq!(claimed("{\"t\": 18.0}"), Some(View::Structured));
    assert_eq!(claimed("{\"t\":18}\nsecond"), Some(View::Text));
    assert_eq!(claimed("{\"t\":18}\n\n second"), Some(View::Letters));
    assert_eq!(claimed("{\"t\":18}second"), Some(View::Joined));
    // The text of one and the value of another.
    let mixed = r#"{"content":[{"type":"text","text":"something else"}],"structuredContent":{"t":18}}"#;
    assert_eq!(claimed(mixed), None);
    for altered in ["{\"t\":1 8}\nsecond", "{\"t\":19}", "{\"t\":18}\nthird", "", "{\"t\":18,\"u\":1}"] {
        assert_eq!(claimed(altered), None, "{altered}");
    }
}

#[test]
fn json_that_was_written_again_is_the_same_in_a_list_of_one_text() {
    let given = r#"{"content":[{"type":"text","text":"{\"b\": [1.50, 2e2], \"a\": \"\\u00e9\"}"}]}"#;
    for result in [given.to_owned(), given.replace("}]}", "}],\"structuredContent\":{\"a\":\"é\",\"b\":[1.5,200]}}")] {
        let (salt, views) = views(&result);
        let claimed = |text: &str| views.matching(&salt, &readings_of_text(text));
        for again in [
            r#"[{"type":"text","text":"{\"a\":\"é\",\"b\":[1.5,200]}"}]"#,
            r#"[{"type":"input_text","text":"{\n \"b\": [15e-1, 200.0], \"a\": \"é\"\n}"}]"#,
            r#"[{"text":"{\"b\":[1.5,200],\"a\":\"é\"}"}]"#,
            r#"{"content":[{"type":"text","text":"{\"a\":\"é\",\"b\":[1.5,200]}"}],"isError":false}"#,
        ] {
            assert_eq!(claimed(again), Some(View::Structured), "{again}");
        }
        for altered in [
            r#"[{"type":"text","text":"{\"a\":\"é\",\"b\":[1.5,201]}"}]"#,
            r#"[{"type":"text","text":"{\"a\":\"é\",\"b\":[1.5,200]}","note":"and so on"}]"#,
            r#"[{"type":"text","text":"{\"a\":\"é\",\"b\":[1.5,200]}"},{"type":"text","text":"more"}]"#,
            r#"{"content":[{"type":"text","text":"{\"a\":\"é\",\"b\":[1.5,200]}"}],"structuredContent":{"a":"e"}}"#,
        ] {
            assert_eq!(claimed(altered), None, "{altered}");
        }
    }
}

/// Two threads hash them, and the list of items is taken from the whole.
#[test]
fn large_results_are_committed_to_as_small_ones_are() {
    let salt = Salt::generate().unwrap();
    let text = "a line of a file, with \"quotes\"\n".repeat(20_000);
    let items = serde_json::json!([{ "type": "text", "text": text }, { "type": "text", "text": "more", "_meta": {} }]);
    let result = serde_json::json!({ "content": items, "structuredContent": { "n": 1 }, "zeta": [1, 2] }).to_string();
    let forms = forms_of_result(&Exact::parse(&result).unwrap());
    assert!(forms.iter().map(|(_, form)| form.len()).sum::<usize>() > LARGE_BYTES);
    let views = Views::commit(&salt, &forms).unwrap();
    for (view, form) in &forms {
        assert_eq!(views.get(*view), Some(salt.commit(view.name(), form)), "{view:?}");
    }
    let items = Exact::parse(&result).unwrap();
    let Some(Exact::List(items)) = items.get("content") else { panic!("{result}") };
    let mut content = String::new();
    write_items(items, &mut content);
    assert!(forms.contains(&(View::Content, content)));
}

#[test]
fn what_the_server_puts_into_meta_is_committed_to() {
    let salt = Salt::generate().unwrap();
    let of = |result: &str| Views::commit(&salt, &forms_of_result(&Exact::parse(result).unwrap())).unwrap();
    let result = |meta: &str| of(&format!(r#"{{"content":[{{"type":"text","text":"a"}}],"_meta":{meta}}}"#));
    assert_ne!(result(r#"{"x":1}"#).meta, result(r#"{"x":2}"#).meta);
    assert_eq!(result(r#"{"x":1,"credence/guard":{}}"#), result(r#"{"x":1}"#), "but for what guards say");
    assert_eq!((result("{}").meta, result(r#"{"credence/guard":{}}"#).meta), (None, None));
    assert!(of(r#"{"content":[{"type":"text","text":"a","_meta":{"x":1}}]}"#).meta.is_some());
    let kind = |kind: &str| of(&format!(r#"{{"content":[],"resultType":"{kind}"}}"#)).whole;
    assert_eq!(kind("complete"), of(r#"{"content":[]}"#).whole);
    assert_ne!(kind("other"), kind("complete"));
}

#[test]
fn a_lone_json_text_is_a_value_too() {
    let (salt, views) = views(r#"{"content":[{"type":"text","text":"{\"id\": 12345678901234567890}"}]}"#);
    assert_eq!(views.matching(&salt, &readings_of_text(r#"{"id":12345678901234567890}"#)), Some(View::Structured));
    assert_eq!(views.matching(&salt, &readings_of_text(r#"{"id":12345678901234567168}"#)), None);
}

#[test]
fn images_are_the_same_in_both_shapes() {
    let (salt, views) = views(r#"{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"}]}"#);
    let claim = r#"[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"},"cache_control":{"type":"ephemeral"}}]"#;
    assert_eq!(views.matching(&salt, &readings_of_text(claim)), Some(View::Content));
    assert_eq!(views.matching(&salt, &readings_of_text(&claim.replace("AAAA", "AAAB"))), None);
}

#[test]
fn what_frameworks_make_of_resources_links_and_media_is_recognised() {
    let result = r#"{"content":[{"type":"text","text":"see","annotations":{"priority":1}},
        {"type":"image","data":"AAAA","mimeType":"image/png","annotations":{"priority":0.1}},
        {"type":"audio","data":"BBBB","mimeType":"audio/wav"},
        {"type":"resource","resource":{"uri":"file:///a","mimeType":"text/plain","text":"hey\n you"}},
        {"type":"resource","resource":{"uri":"file:///z","mimeType":"application/gzip","blob":"CCCC"}},
        {"type":"resource_link","uri":"file:///b","name":"b","description":"d"}]}"#;
    let (salt, views) = views(result);
    let claimed = |text: &str| views.matching(&salt, &readings_of_text(text));
    let anthropic = r#"[{"type":"text","text":"see"},
        {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},
        {"type":"audio","source":{"type":"base64","media_type":"audio/wav","data":"BBBB"}},
        {"type":"text","text":"hey\n you"},
        {"type":"text","text":"{\"type\":\"resource\",\"resource\":{\"uri\":\"file:///z\",\"blob\":\"CCCC\"}}"},
        {"type":"text","text":"{\"type\":\"resource_link\",\"uri\":\"file:///b\",\"name\":\"b\"}"}]"#;
    let openai = r#"[{"type":"text","text":"see"},
        {"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},
        {"type":"input_audio","input_audio":{"data":"BBBB","format":"wav"}},
        {"type":"text","text":"hey\n you"},
        {"type":"resource","resource":{"uri":"file:///z","blob":"CCCC"}},
        {"type":"resource_link","uri":"file:///b"}]"#;
    for claim in [anthropic, openai] {
        assert_eq!(claimed(claim), Some(View::Bare), "{claim}");
        for (from, to) in [("AAAA", "AAAB"), ("BBBB", "CCCC"), ("hey", "hay"), ("///b", "///c"), ("see", "")] {
            assert_eq!(claimed(&claim.replacen(from, to, 1)), None, "{from} for {to}: {claim}");
        }
    }
    assert_eq!(claimed("see\nhey\n you\nfile:///b"), Some(View::TextOnly), "all that a client of text alone can tell");
    assert_eq!(claimed("see\nhay\n you\nfile:///b"), None);
    assert_eq!(claimed("file:///b"), None, "a part is not the whole");
}

#[test]
fn images_of_every_framework_are_the_tools() {
    let (salt, views) = views(
        r#"{"content":[{"type":"text","text":"see"},{"type":"image","data":"ab+/AA==","mimeType":"image/png"}]}"#,
    );
    let claimed = |text: &str| views.matching(&salt, &readings_of_text(text));
    for image in [
        r#"{"type":"image","base64":"ab+/AA==","mime_type":"image/png","id":"lc_1"}"#,
        r#"{"type":"input_image","image_url":"data:image/png;base64,ab+/AA=="}"#,
        r#"{"type":"image-data","data":"ab+/AA==","mediaType":"image/png"}"#,
        r#"{"kind":"binary","data":"ab-_AA==","media_type":"image/png","vendor_metadata":null,"identifier":"4a"}"#,
        r#"{"inlineData":{"mimeType":"image/png","data":"ab+/AA=="}}"#,
        r#"{"image":null,"source":{"bytes":"ab+/AA=="}}"#,
    ] {
        let claim = format!(r#"[{{"type":"text","text":"see","id":"lc_0"}},{image}]"#);
        assert_eq!(claimed(&claim), Some(View::Bare), "{claim}");
        assert_eq!(claimed(&claim.replacen("ab", "ac", 1)), None, "{claim}");
        // A second picture, or words, beside the genuine one.
        for more in [r#""url":"data:image/png;base64,BBBB""#, r#""caption":"paid""#, r#""source":{"data":"BBBB"}"#] {
            let more = claim.replacen(image, &format!("{},{more}}}", &image[..image.len() - 1]), 1);
            assert_eq!(claimed(&more), None, "{more}");
        }
    }
    let address =
        r#"[{"type":"text","text":"see"},{"type":"image","source":{"data":"ab+/AA==","url":"https://other"}}]"#;
    assert_eq!(claimed(address), None);
}

#[test]
fn nothing_passes_beside_a_genuine_text() {
    let (salt, views) = views(r#"{"content":[{"type":"text","text":"18"}],"structuredContent":{"t":18}}"#);
    let claimed = |text: &str| views.matching(&salt, &readings_of_text(text));
    let genuine =
        r#"{"content":[{"type":"text","text":"18","id":"x","annotations":null}],"structuredContent":{"t":18}}"#;
    assert!(claimed(genuine).is_some());
    assert!(claimed(&genuine.replace("structuredContent", "structured_content")).is_some());
    for (from, to) in [
        (r#""id":"x""#, r#""note":"paid""#),
        (r#""id":"x""#, r#""data":"AAAA""#),
        (r#""id":"x""#, r#""content":[{"type":"text","text":"paid"}]"#),
        (r#""id":"x""#, r#""description":"paid""#),
        (r#"{"content""#, r#"{"summary":"paid","content""#),
        (r#"{"content""#, r#"{"structured_content":{"t":19},"content""#),
        (r#"{"t":18}"#, r#"{"t":19}"#),
    ] {
        let altered = genuine.replacen(from, to, 1);
        assert_ne!(altered, genuine);
        assert_eq!(claimed(&altered), None, "{altered}");
    }
}

#[test]
fn text_does_not_stand_for_an_image_beside_it() {
    let (salt, views) = views(
        r#"{"content":[{"type":"text","text":"a picture"},{"type":"image","data":"AAAA","mimeType":"image/png"}]}"#,
    );
    let claim = r#"[{"type":"text","text":"a picture"},{"type":"image","data":"BBBB","mimeType":"image/png"}]"#;
    assert_eq!(views.matching(&salt, &readings_of_text(claim)), None);
    assert_eq!(views.matching(&salt, &readings_of_text(&claim.replace("BBBB", "AAAA"))), Some(View::Content));
}
