//! Tables without lines: columns padded with blanks, fit for a terminal and for `awk`.

use comfy_table::{Table, presets};

/// Renders rows under their headers; ends with a line break. An empty cell shows as `-`, so that
/// columns can be counted.
pub(crate) fn render<R, C>(headers: &[&str], rows: &[R]) -> String
where
    R: AsRef<[C]>,
    C: AsRef<str>,
{
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headers);
    for row in rows {
        let cells = row.as_ref().iter().map(|cell| match cell.as_ref() {
            "" => "-",
            text => text,
        });
        table.add_row(cells);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_never_empty() {
        let rows = [["a", ""], ["long", "x y"]];
        assert_eq!(render(&["ID", "NAME"], &rows), "ID    NAME\na     -\nlong  x y\n");
    }
}
