import React from 'react';
import Link from '@docusaurus/Link';
import Layout from '@theme/Layout';

export default function Home() {
  return (
    <Layout title="Tidewater">
      <h1>Tidewater</h1>
      <Link to="/docs/guides/quickstart">Quick start</Link>
      <Link to="/docs/guides/retries#schedule">Retries</Link>
    </Layout>
  );
}
