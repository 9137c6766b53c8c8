//! HTML: an `<article>` for a page of the service, or a document of its own that needs nothing else and prints on A4.

use std::fmt::Write;

use crate::page::{Block, Inline, Line, Links, shown};

/// Styles of a document of its own. The service's pages have the same in their stylesheet.
const STYLE: &str = "\
:root{color-scheme:light}body{margin:2rem auto;max-width:60rem;padding:0 1rem;color:#111827;background:#fff;\
font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',Arial,sans-serif;overflow-wrap:anywhere}\
h1{font-size:1.7rem;line-height:1.2}h2{font-size:1.25rem;margin-top:2rem;border-bottom:1px solid #d1d5db}\
table{border-collapse:collapse;width:100%;margin:.6rem 0 1rem;font-size:.9rem;overflow-wrap:normal}th,td{text-align:left;padding:.3rem .5rem;\
border-bottom:1px solid #d1d5db;vertical-align:top}thead th{color:#4b5563}caption{text-align:left;font-weight:600}\
.number{text-align:right;font-variant-numeric:tabular-nums}.notice{border-left:4px solid #b91c1c;background:#fdeaea;padding:.5rem .9rem}\
blockquote{margin:.5rem 0;padding:.1rem 1rem;border-left:4px solid #9ca3af;background:#f7f9fc}dl{display:grid;\
grid-template-columns:max-content 1fr;gap:.1rem 1rem}dt{color:#4b5563}dd{margin:0}pre{white-space:pre-wrap;background:#f7f9fc;\
border:1px solid #d1d5db;padding:.6rem;font-size:.8rem}code{font-size:.9em}\
@page{size:A4;margin:16mm}@media print{body{margin:0;max-width:none;font-size:10.5pt}h2{break-after:avoid}\
tr,.notice,blockquote,dl,pre{break-inside:avoid}thead{display:table-header-group}a{color:inherit;text-decoration:none}}";

/// A document of its own.
pub fn document(title: &str, blocks: &[Block], links: &Links) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"referrer\" content=\"no-referrer\">\
         <title>{}</title><style>{STYLE}</style></head>\n<body>\n{}</body></html>\n",
        escaped(title),
        article(blocks, links)
    )
}

/// The report itself.
pub fn article(blocks: &[Block], links: &Links) -> String {
    let mut out = String::from("<article class=\"report\">\n");
    for block in blocks {
        // Writing to a string does not fail.
        let _ = write_block(&mut out, block, links);
    }
    out.push_str("</article>\n");
    out
}

fn write_block(out: &mut String, block: &Block, links: &Links) -> std::fmt::Result {
    match block {
        Block::Heading(level, line) => {
            let level = level.clamp(&1, &6);
            writeln!(out, "<h{level}>{}</h{level}>", inline(line, links))
        }
        Block::Notice(line) => writeln!(out, "<p class=\"notice\" role=\"note\">{}</p>", inline(line, links)),
        Block::Paragraph(line) => writeln!(out, "<p>{}</p>", inline(line, links)),
        Block::Quote(paragraphs) => {
            let paragraphs: String = paragraphs.iter().map(|text| format!("<p>{}</p>", escaped(text))).collect();
            writeln!(out, "<blockquote>{paragraphs}</blockquote>")
        }
        Block::Facts(facts) => {
            let items = facts.iter().map(|(name, line)| format!("<dt>{name}</dt><dd>{}</dd>", inline(line, links)));
            writeln!(out, "<dl>{}</dl>", items.collect::<String>())
        }
        Block::List(lines) => {
            let items: String = lines.iter().map(|line| format!("<li>{}</li>", inline(line, links))).collect();
            writeln!(out, "<ul>{items}</ul>")
        }
        Block::Table { caption, columns, rows } => {
            let class = |number: bool| if number { " class=\"number\"" } else { "" };
            write!(
                out,
                "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table><caption>{caption}</caption><thead><tr>"
            )?;
            for column in columns {
                write!(out, "<th scope=\"col\"{}>{}</th>", class(column.number), column.name)?;
            }
            write!(out, "<th scope=\"col\">Entry</th></tr></thead><tbody>")?;
            for row in rows {
                write!(out, "<tr>")?;
                for (n, line) in row.lines().iter().enumerate() {
                    let number = columns.get(n).is_some_and(|column| column.number);
                    write!(out, "<td{}>{}</td>", class(number), inline(line, links))?;
                }
                write!(out, "</tr>")?;
            }
            writeln!(out, "</tbody></table></div>")
        }
        Block::Preformatted(text) => {
            let lines: Vec<String> = text.lines().map(escaped).collect();
            writeln!(out, "<pre tabindex=\"0\">{}</pre>", lines.join("\n"))
        }
    }
}

fn inline(line: &Line, links: &Links) -> String {
    let link = |to: String, says: &str| format!("<a href=\"{}\">{says}</a>", escaped(&to));
    line.iter()
        .map(|part| match part {
            Inline::Text(text) => escaped(text),
            Inline::Strong(text) => format!("<strong>{}</strong>", escaped(text)),
            Inline::Code(text) => format!("<code>{}</code>", escaped(text)),
            Inline::Entry(seq) => link(links.entry(*seq), &format!("entry\u{a0}{seq}")),
            Inline::Report(id) => link(links.report(id), &format!("report {}", escaped(id))),
        })
        .collect()
}

/// Text that shows as it is, in an element or an attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars().map(shown) {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        let evil = "</title><script>alert(1)</script>\"' onload=x\u{202e}";
        let page = document(
            evil,
            &[Block::Paragraph(vec![Inline::Text(evil.into()), Inline::Code(evil.into())])],
            &Links::to("https://a.example/"),
        );
        assert!(!page.contains("<script") && !page.contains('\u{202e}') && page.contains("&lt;script&gt;"), "{page}");
        assert_eq!(page.matches("<title>").count(), 1);
    }
}
