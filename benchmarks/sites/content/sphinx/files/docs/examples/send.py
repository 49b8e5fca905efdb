from tidewater import Client

Client().send("orders", b"{}")
