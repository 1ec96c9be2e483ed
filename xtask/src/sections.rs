//! Documents in sections: each task writes its own and leaves the others.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// Puts `text` in the section `name` of the document.
pub fn write(document: &str, name: &str, text: &str) -> Result<()> {
    let path = workspace::root().join(document);
    let page = fs::read_to_string(&path).with_context(|| document.to_string())?;
    let page = replaced(&page, name, text).with_context(|| document.to_string())?;
    fs::write(path, page).with_context(|| document.to_string())
}

fn replaced(page: &str, name: &str, text: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->\n"));
    let Some((before, rest)) = page.split_once(&begin) else {
        return Ok(format!("{}\n\n{begin}\n{}\n\n{end}", page.trim_end(), text.trim_end()));
    };
    let after = rest.split_once(&end).map(|(_, after)| after);
    ensure!(after.is_some(), "the section {name} has no end");
    Ok(format!("{before}{begin}\n{}\n\n{end}{}", text.trim_end(), after.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::replaced;

    // A section is replaced where it stands, and what is around it stays.
    #[test]
    fn a_section_is_replaced_alone() {
        let page = replaced("# Page\n\nby hand\n", "a", "old").unwrap();
        let page = replaced(&page, "b", "other\n").unwrap();
        let page = replaced(&page, "a", "new").unwrap();
        let wanted = "# Page\n\nby hand\n\n<!-- a: begin -->\n\nnew\n\n<!-- a: end -->\n\n<!-- b: begin -->\n\nother\n\n<!-- b: end -->\n";
        assert_eq!(page, wanted);
        assert!(replaced("<!-- a: begin -->\n", "a", "new").is_err());
    }
}
