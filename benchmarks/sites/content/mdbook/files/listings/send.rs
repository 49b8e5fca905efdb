use tidewater::Client;

// ANCHOR: send
fn send(client: &Client) {
    client.send("orders", b"{}");
}
// ANCHOR_END: send
