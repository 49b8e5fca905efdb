module.exports = {
  title: 'Tidewater',
  url: 'https://tidewater.example',
  baseUrl: '/',
  onBrokenLinks: 'throw',
  onBrokenAnchors: 'throw',
  onBrokenMarkdownLinks: 'throw',
  onDuplicateRoutes: 'throw',
  i18n: {defaultLocale: 'en', locales: ['en', 'de']},
  presets: [
    [
      'classic',
      {
        docs: {sidebarPath: './sidebars.js'},
        blog: false,
      },
    ],
  ],
  plugins: [
    [
      '@docusaurus/plugin-client-redirects',
      {
        redirects: [
          {from: '/docs/guides/backoff', to: '/docs/guides/retries'},
        ],
      },
    ],
  ],
  themeConfig: {
    navbar: {
      title: 'Tidewater',
      items: [
        {type: 'docsVersionDropdown'},
        {type: 'localeDropdown'},
        {to: '/docs/guides/quickstart', label: 'Quick start'},
        {to: '/docs/guides/retries', label: 'Retries'},
      ],
    },
    footer: {
      links: [
        {title: 'Reference', items: [{label: 'Settings', to: '/docs/next/reference/settings'}]},
      ],
    },
  },
};
