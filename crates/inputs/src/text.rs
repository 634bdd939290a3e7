//! Text in other encodings than UTF-8.

/// Bytes that a line of text has at most, where lines are kept whole.
pub const LONGEST_LINE: usize = 1 << 20;

/// Refuses text with a line of more than [`LONGEST_LINE`] bytes, which parsers would copy and
/// messages repeat.
///
/// # Errors
/// The number of the line, from 1, with its beginning.
pub fn no_long_line(text: &[u8]) -> Result<(), String> {
    let mut lines = text.split(|byte| *byte == b'\n').zip(1..);
    let Some((line, number)) = lines.find(|(line, _)| line.len() > LONGEST_LINE) else {
        return Ok(());
    };
    let begin = String::from_utf8_lossy(&line[..60]);
    Err(format!("line {number}: found `{begin}`, expected at most {LONGEST_LINE} characters"))
}

/// The bytes as UTF-8 without a byte order mark; UTF-16, as some spreadsheets and shells write it,
/// is converted by its mark.
///
/// # Errors
/// The line that says so, if it is damaged UTF-16.
pub fn decoded(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let (rest, is_big) = match &bytes[..] {
        [0xef, 0xbb, 0xbf, rest @ ..] => return Ok(rest.to_vec()),
        [0xff, 0xfe, rest @ ..] => (rest, false),
        [0xfe, 0xff, rest @ ..] => (rest, true),
        _ => return Ok(bytes),
    };
    let unit = |pair: &[u8]| {
        let pair = [pair[0], pair[1]];
        if is_big {
            u16::from_be_bytes(pair)
        } else {
            u16::from_le_bytes(pair)
        }
    };
    let text = char::decode_utf16(rest.chunks_exact(2).map(unit)).collect::<Result<String, _>>();
    match text {
        Ok(text) if rest.len() % 2 == 0 => Ok(text.into_bytes()),
        _ => Err("UTF-16 that is damaged, expected UTF-8".to_owned()),
    }
}
