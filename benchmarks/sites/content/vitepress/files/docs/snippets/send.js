import { Client } from 'tidewater'

// #region send
new Client('https://events.example').send('orders', '{}')
// #endregion send
